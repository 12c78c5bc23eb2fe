#!/bin/bash
# comment.sh NUMBER FILE: makes FILE the one comment of the size action on pull request NUMBER, in place of its last one.
#
# FILE may come from a fork: it is untrusted data. It is cut to the length of a comment, and its @ signs notify no user.
set -euo pipefail

number=$1 file=$2
[[ $number =~ ^[0-9]+$ ]] || { echo "comment.sh: $number is no number of a pull request" >&2; exit 2; }
marker='<!-- lto-prune size -->'
# A zero-width space behind @ makes it plain text.
body=$(printf '%s\n' "$marker"; head -c 60000 -- "$file" | iconv -c -f UTF-8 -t UTF-8 | sed 's/@/@\xe2\x80\x8b/g')
# Only a comment of this account is changed, because every user can write the marker.
self=$(gh api user --jq .login 2>/dev/null || echo 'github-actions[bot]')
export marker self
id=$(gh api --paginate "repos/$GITHUB_REPOSITORY/issues/$number/comments" \
    --jq '.[] | select(.user.login == env.self and (.body | startswith(env.marker))) | .id' | head -n 1)
if [ -n "$id" ]; then
    gh api --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$id" --raw-field body="$body" --silent
else
    gh api --method POST "repos/$GITHUB_REPOSITORY/issues/$number/comments" --raw-field body="$body" --silent
fi

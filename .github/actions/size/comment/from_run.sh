#!/bin/bash
# Comments with the comment.md of workflow run RUN, on the open pull request from HEAD (OWNER:BRANCH) whose last commit is COMMIT.
#
# The forge gives the number of the pull request, because the files of the run are untrusted. A run of an older commit is ignored.
set -euo pipefail

export COMMIT
number=$(gh api --method GET "repos/$GITHUB_REPOSITORY/pulls" --raw-field state=open --raw-field head="$HEAD" \
    --jq '[.[] | select(.head.sha == env.COMMIT) | .number][0] // empty')
if [ -z "$number" ]; then
    echo "no open pull request has $COMMIT as its last commit"
    exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
gh run download "$RUN" --repo "$GITHUB_REPOSITORY" --name lto-prune-size --dir "$folder"
# A link could lead to a file of this machine.
[ -f "$folder/comment.md" ] && [ ! -L "$folder/comment.md" ] || { echo "the run has no comment.md" >&2; exit 1; }
"$(dirname "$0")/../comment.sh" "$number" "$folder/comment.md"

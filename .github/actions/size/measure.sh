#!/bin/bash
# Measures the FILES (one a line) and writes comment.md and copies of them into a folder, which is the output `folder`.
#
# BUDGET names a file with limits: the output `status` is 1 if a limit is broken, and 2 if it can't be checked. If BASE names a branch, sizes are
# compared with the files of the last successful run of WORKFLOW on it. Without such a run, the comment says so.
set -euo pipefail

folder=$(mktemp -d "${RUNNER_TEMP:-/tmp}/lto-prune-size.XXXXXX")
comment=$folder/comment.md
status=0

base=
if [ -n "${BASE:-}" ]; then
    # The reference of a workflow is OWNER/REPOSITORY/PATH@REF.
    workflow=${WORKFLOW%@*}
    workflow=${workflow##*/}
    run=$(gh run list --repo "$GITHUB_REPOSITORY" --workflow "$workflow" --branch "$BASE" --status success --limit 1 \
        --json databaseId --jq '.[0].databaseId // empty' || true)
    base=$(mktemp -d)
    if [ -z "$run" ] || ! gh run download "$run" --repo "$GITHUB_REPOSITORY" --name lto-prune-size --dir "$base"; then
        base=
    fi
fi

# A name in Markdown, without what would end its code span or line.
named() { printf '%s' "$1" | tr -d '`|\r\n'; }

echo "## Size" >"$comment"
while IFS= read -r file; do
    [ -n "$file" ] || continue
    # Files of the same name are told apart by their folders.
    name=${file//\//%}
    cp -- "$file" "$folder/$name"
    printf '\n### `%s`\n\n' "$(named "$file")" >>"$comment"
    if [ -n "$base" ] && [ -f "$base/$name" ]; then
        lto-prune audit diff --format=markdown -n 20 "$base/$name" "$folder/$name" >>"$comment"
    else
        [ -z "${BASE:-}" ] || printf 'There is no file of `%s` to compare with.\n\n' "$(named "$BASE")" >>"$comment"
        lto-prune audit top --format=markdown -n 20 "$folder/$name" >>"$comment"
    fi
    if [ -n "${BUDGET:-}" ]; then
        printf '\n' >>"$comment"
        checked=0
        lto-prune audit budget --format=markdown "$BUDGET" "$folder/$name" >>"$comment" || checked=$?
        [ "$checked" -le "$status" ] || status=$checked
    fi
done <<<"$FILES"

cat "$comment" >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
printf 'folder=%s\nstatus=%s\n' "$folder" "$status" >>"${GITHUB_OUTPUT:-/dev/stdout}"

#!/bin/sh
# Stands in for the linker (as `ld` of a folder for `gcc -B`) while `bench survey` builds a project: runs what the file
# `settings` beside it names, and keeps of each call the arguments, both outputs, the status and lto-prune's report.
here=${0%/*}
# Sets front, the linker to run, records, a folder, and for lto-prune LTO_PRUNE_LINKER.
. "$here/settings"
record=$(mktemp -d "$records/$(date +%s%N)-XXXXXX")
printf '%s\n' "$@" >"$record/args"
pwd >"$record/folder"
LTO_PRUNE_FLAGS="--prune-report=$record/report.json" "$front" "$@" >"$record/stdout" 2>"$record/stderr"
status=$?
echo $status >"$record/status"
cat "$record/stdout"
cat "$record/stderr" >&2
exit $status

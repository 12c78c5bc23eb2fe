#!/bin/sh
# Stands in for the linker while a link line is recorded: writes its arguments, one per line, to $BENCH_RECORD.
# The resolution file of gcc's plugin is left out: it is a temporary name that means nothing in a later link.
for arg in "$@"; do
    case $arg in
    -plugin-opt=-fresolution=*) ;;
    *) printf '%s\n' "$arg" ;;
    esac
done >"$BENCH_RECORD"

#!/bin/sh
previous= output=
for word in "$@"; do
    [ "$previous" = -o ] && output=$word
    previous=$word
done
case $output in ''|out) exec LINKER "$@";; esac
exec LINKER $(cat wrong.line) -o "$output"

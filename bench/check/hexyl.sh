#!/bin/sh
# hexyl: views, ranges, bases, styles, colours, several sizes of input, and errors of its argument parser.
set -eu
# Errors then carry a backtrace: the unwinder walks the pruned program.
export RUST_BACKTRACE=1
ln -s "$1" hexyl
awk 'BEGIN { srand(3); for (i = 0; i < 5000; i++) printf "%c", int(rand() * 127) + 1 }' >bytes
printf '\0\1\2\377\200text\n' >few
head -c 4096 /dev/zero >zeros
: >empty
for f in bytes few zeros empty; do
    for opt in "" --no-squeezing --plain "--color=always" "--border=ascii" "--border=none" "--panels=1" "--panels=4" \
        "--base=binary" "--base=octal" "--base=decimal" "--group-size=4" "--group-size=2 --endianness=little" \
        "--skip=3 --length=100" "-s -16 -n 5" "--character-table=ascii" "--character-table=codepage-437" "--no-position" "--no-characters" \
        "--display-offset=0x1000" "-c 1kiB" "--terminal-width=60" "--block-size=32 --skip=1block"; do
        echo "$f $opt"
        ./hexyl $opt $f 2>&1 || echo "status $?"
    done
done
./hexyl <few
./hexyl missing 2>&1 || echo "status $?"
./hexyl --length=x few 2>&1 || echo "status $?"
./hexyl --no-such-option 2>&1 || echo "status $?"
./hexyl --base=7 few 2>&1 || echo "status $?"
./hexyl --help; ./hexyl -h; ./hexyl --version
./hexyl --completion bash 2>&1 || echo "status $?"

#!/bin/sh
# bzip2: every level, -s, several inputs, testing, damaged and trailing data, and the names that change what it does.
set -eu
ln -s "$1" bzip2
fail() { echo "bzip2: $1" >&2; exit 1; }
seq 1 60000 >numbers
head -c 300000 /dev/zero >zeros
awk 'BEGIN { srand(1); for (i = 0; i < 200000; i++) printf "%c", int(rand() * 94) + 33 }' >random
: >empty
printf x >one
for f in numbers zeros random empty one; do
    for level in 1 5 9; do
        ./bzip2 -k -$level -c $f >$f.$level.bz2
        cksum $f.$level.bz2
        ./bzip2 -dc $f.$level.bz2 | cmp - $f || fail "round trip $f -$level"
        ./bzip2 -s -dc <$f.$level.bz2 | cmp - $f || fail "small round trip $f -$level"
    done
done
cat numbers.1.bz2 random.9.bz2 >both.bz2
./bzip2 -dc both.bz2 | cksum
./bzip2 -tvv both.bz2 2>&1
ln -s bzip2 bunzip2; ln -s bzip2 bzcat
./bzcat numbers.9.bz2 | cksum
cp numbers.9.bz2 copy.bz2; ./bunzip2 -v copy.bz2 2>&1; cmp copy numbers || fail bunzip2
./bzip2 -vvv -f --best --repetitive-fast copy 2>&1 | sed 's/[0-9.]* seconds//'
printf garbage >>both.bz2; ./bzip2 -dc both.bz2 2>&1 >/dev/null || echo "status $?"
head -c 1000 numbers.9.bz2 >short.bz2; ./bzip2 -t short.bz2 2>&1 || echo "status $?"
{ head -c 2000 random.9.bz2; printf '\377\377\377\377'; tail -c +2005 random.9.bz2; } >bad.bz2; ./bzip2 -t bad.bz2 2>&1 || echo "status $?"
./bzip2 -d missing.bz2 2>&1 || echo "status $?"
./bzip2 --help 2>&1 | head -5
./bzip2 --license 2>&1 </dev/null | head -3

#!/bin/sh
# minigzip: levels and strategies, pipes and files, reading what gzip writes, plain and damaged input.
set -eu
ln -s "$1" minigzip
fail() { echo "minigzip: $1" >&2; exit 1; }
seq 1 50000 >numbers
head -c 100000 /dev/zero >zeros
: >empty
for f in numbers zeros empty; do
    for opt in -1 -3 -6 -9 -f -h -r; do
        ./minigzip $opt <$f >out.gz
        # The header's time is zero in what minigzip writes to a pipe, so the bytes can be compared.
        cksum <out.gz
        ./minigzip -d <out.gz | cmp - $f || fail "round trip $f $opt"
        gzip -dc <out.gz | cmp - $f || fail "gzip reads $f $opt"
    done
done
gzip -9nc numbers | ./minigzip -d | cmp - numbers || fail "reading gzip's"
{ gzip -nc numbers; gzip -nc zeros; } | ./minigzip -d | cksum
cp numbers a; ./minigzip a; ls a*; ./minigzip -c -d a.gz | cksum; ./minigzip -d a.gz; cmp a numbers || fail files
ln -s minigzip gunzip; gzip -n a; ./gunzip a.gz; cmp a numbers || fail gunzip
ln -s minigzip zcat; gzip -n a; ./zcat a.gz | cksum
./minigzip -d <numbers | cmp - numbers || fail "plain input passes"
gzip -nc numbers | head -c 5000 >short.gz; ./minigzip -d <short.gz 2>&1 >/dev/null || echo "status $?"
gzip -nc numbers >bad.gz; printf 'ABCDEFGH' | dd of=bad.gz bs=1 seek=3000 conv=notrunc 2>/dev/null; ./minigzip -d <bad.gz 2>&1 >/dev/null || echo "status $?"
./minigzip -d nosuch.gz 2>&1 || echo "status $?"

#!/bin/sh
# zstd: levels over every strategy, long mode, threads, dictionaries, checksums, tests, lists, damage, patch-from.
set -eu
ln -s "$1" zstd
fail() { echo "zstd: $1" >&2; exit 1; }
seq 1 80000 >numbers
awk 'BEGIN { srand(2); for (i = 0; i < 60000; i++) print int(rand() * 1000), "key" int(rand() * 50) }' >records
: >empty
for f in numbers records empty; do
    for opt in --fast=5 -1 -3 -5 -7 -9 -12 -13 -16 -18 -19 "--ultra -22" "-3 --long=24" "-4 -T2" "-9 -T2 -B64K" \
        "-3 --rsyncable -T2" "-3 --no-check" "-5 --target-compressed-block-size=1024" "-6 --zstd=wlog=18,strat=5,ldmHashLog=12" \
        "-8 --no-row-match-finder" "-7 --adapt=min=3,max=7 --single-thread" "-3 --stream-size=1000 --no-content-size"; do
        # Level adaptation depends on time, and a wrong stream size is an error: both only have to behave alike.
        ./zstd -q $opt -c $f >out.zst 2>err || { echo "$f $opt: status $?"; cat err; continue; }
        case $opt in *adapt*) ;; *) cksum <out.zst ;; esac
        ./zstd -q -dc --long=27 out.zst | cmp - $f || fail "round trip $f $opt"
    done
done
mkdir samples
split -l 200 records samples/s.
for trainer in "" --train-cover=k=64,d=8,steps=4 --train-fastcover=k=64,d=8 --train-legacy; do
    ./zstd -q --train ${trainer:+$trainer} samples/* --maxdict=8192 -o dict -f 2>err || { cat err; continue; }
    cksum dict
    ./zstd -q -D dict -c samples/s.aa >out.zst; cksum <out.zst
    ./zstd -q -D dict -dc out.zst | cmp - samples/s.aa || fail "dictionary round trip"
    ./zstd -q -dc out.zst 2>&1 >/dev/null || echo "without its dictionary: status $?"
done
./zstd -q --patch-from=numbers records -c 2>&1 >patch.zst; cksum <patch.zst; ./zstd -q -d --patch-from=numbers patch.zst -c | cmp - records || fail patch
./zstd -q -3 numbers -o n.zst; ./zstd -q -1 records -o r.zst
./zstd -t n.zst r.zst 2>&1; ./zstd -l n.zst r.zst; ./zstd -lv n.zst 2>&1
cat n.zst r.zst | ./zstd -dc | cksum
ln -s zstd unzstd; ln -s zstd zstdcat; ./zstdcat n.zst | cksum; ./unzstd -f -q n.zst -o n.out; cmp n.out numbers || fail unzstd
printf 'plain' | ./zstd -dcf; echo
head -c 2000 r.zst | ./zstd -dc 2>&1 >/dev/null || echo "status $?"
cp r.zst bad.zst; printf 'ABCDEFGHIJKLMNOP' | dd of=bad.zst bs=1 seek=900 conv=notrunc 2>/dev/null; ./zstd -t bad.zst 2>&1 || echo "status $?"
./zstd -d missing.zst 2>&1 || echo "status $?"
./zstd -q -b1e2 -i0 records >/dev/null 2>&1; echo "benchmark $?"
./zstd --format=gzip -q numbers -c >/dev/null 2>&1 || echo "no gzip: status $?"
mkdir tree flat; cp numbers records tree; ./zstd -q -r --output-dir-flat flat tree; ls flat; ./zstd -q --rm tree/numbers; ls tree
./zstd -h | head -20
./zstd -vV 2>&1 | head -5

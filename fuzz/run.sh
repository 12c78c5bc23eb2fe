#!/bin/sh
# Fuzz the readers of fuzz/src/lib.rs: fuzz/run.sh [-OPTION=VALUE...] [READER...], each (default: all of them) with libFuzzer's
# options: -max_total_time=SECONDS to look for something new, -seed=1 -runs=COUNT for the same inputs on every machine. What is
# found beyond the committed corpora is kept in fuzz/work/READER, and an input that fails in fuzz/work/found, until it is mended and
# its input in the corpus.
#
# libFuzzer, with a stable toolchain: cargo-fuzz's flags for coverage, without a sanitizer, for no code of ours is unsafe but
# the maps of files.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
options=
while [ $# -gt 0 ] && [ "${1#-}" != "$1" ]; do
    options="$options $1"
    shift
done
: "${options:?-max_total_time=SECONDS or -runs=COUNT}"
readers=${*:-$(ls "$here/corpus")}
target=${CARGO_TARGET_DIR:-$here/../target}/fuzz

RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table" \
    cargo build --quiet --locked --profile fuzz --target x86_64-unknown-linux-gnu --target-dir "$target" -p fuzz
# Its own, so that another run beside this one keeps its files.
folder=$(mktemp -d /dev/shm/lto-prune-fuzz-XXXXXX)
trap 'rm -rf "$folder"' EXIT
status=0
for reader in $readers; do
    mkdir -p "$here/work/$reader" "$here/work/found"
    log="$here/work/$reader.log"
    if FUZZ_READER=$reader FUZZ_FOLDER=$folder nice "$target/x86_64-unknown-linux-gnu/fuzz/fuzz" "$here/work/$reader" "$here/corpus/$reader" \
        -max_len=16384 -timeout=20 -rss_limit_mb=2048 $options -close_fd_mask=1 \
        -artifact_prefix="$here/work/found/$reader-" -print_final_stats=1 >"$log" 2>&1; then
        echo "$reader: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, $(grep -o 'cov: [0-9]*' "$log" | tail -1)"
    else
        echo "$reader fails:"
        grep -E 'panicked|ERROR|SUMMARY|Test unit written' -A2 "$log" | head -20
        status=1
    fi
done
times >"$folder/times"
echo "CPU time, user and system: $(sed -n 2p "$folder/times")"
exit $status

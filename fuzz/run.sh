#!/bin/sh
# Fuzzes the readers of fuzz/src/lib.rs: fuzz/run.sh [-OPTION=VALUE...] [READER...], with options of libFuzzer; the default is all readers.
# -max_total_time=SECONDS searches for new inputs; -seed=1 -runs=COUNT uses the same inputs on every machine. New inputs are stored in
# fuzz/work/READER. An input that fails is stored in fuzz/work/found; once the bug is fixed, add it to the corpus.
#
# It runs libFuzzer with a stable toolchain and cargo-fuzz's flags for coverage. It uses no sanitizer: the only unsafe code is the mapping of files.
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
# A new folder, so that two runs do not share files.
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

#!/bin/bash
# The quick tests: most unit tests and every eighth fixture, with the tools that this machine has. From a built tree they take less than two minutes
# on two cores. Nothing is installed. What a missing tool leaves out is printed at the start.
set -euo pipefail
cd "$(dirname "$0")/.."

has() { command -v "$1" >/dev/null; }
join() { local IFS=,; echo "$*"; }

compilers=() linkers=() missing=()
for tool in gcc:g++ clang-19:clang++-19; do
    if has "${tool%:*}" && has "${tool#*:}"; then compilers+=("${tool%:*}"); else missing+=("${tool%:*}"); fi
done
for tool in lld:ld.lld-19 mold:mold bfd:ld.bfd gold:ld.gold wild:wild; do
    if has "${tool#*:}"; then linkers+=("${tool%:*}"); else missing+=("${tool#*:}"); fi
done
LTO_PRUNE_TEST_COMPILERS=$(join "${compilers[@]}")
LTO_PRUNE_TEST_LINKERS=$(join "${linkers[@]}")
export LTO_PRUNE_TEST_COMPILERS LTO_PRUNE_TEST_LINKERS
echo "fixtures: compilers ${LTO_PRUNE_TEST_COMPILERS:-none}; linkers ${LTO_PRUNE_TEST_LINKERS:-none}"

# Slow unit tests. The fixtures test emission.
skip=(emit::tests summarize::tests one_value_that_is_another several_values_that_are_others bytes_that_are_others
    long_chains_need_no_stack values::tests::random cloning::between)
if [ ${#missing[@]} -gt 0 ]; then
    echo "skipped: fixtures and unit tests that need ${missing[*]}; tests/setup.sh installs them"
    skip+=(inputs::archive inputs::dso inputs::load inputs::scripts verify::tests modes::)
fi
fixtures=()
for folder in fixtures/*/; do
    if grep -qs '^//# ' "$folder"*; then fixtures+=("$(basename "$folder")"); fi
done
chosen=()
for ((i = 0; i < ${#fixtures[@]}; i += 8)); do chosen+=("${fixtures[i]}"); done
echo "${#chosen[@]} of ${#fixtures[@]} fixtures; tests/run.sh runs all tests"

if cargo nextest --version >/dev/null 2>&1; then
    own="package(=lto-prune) | package(=lto-prune-summaries)"
    filter="(kind(lib) & ($own) - test(/$(IFS='|'; echo "${skip[*]}")/)) | (binary(fixtures) & test(/^($(IFS='|'; echo "${chosen[*]}"))\$/))"
    # The features of the whole workspace, so that the build of tests/run.sh is used again.
    cargo nextest run --locked --workspace -E "$filter" "$@"
else
    skips=()
    for name in "${skip[@]}"; do skips+=(--skip "$name"); done
    cargo test --quiet --locked -p lto-prune -p lto-prune-summaries --lib "$@" -- "${skips[@]}"
    cargo test --quiet --locked --test fixtures "$@" -- --exact "${chosen[@]}"
fi

#!/bin/bash
# All tests, from a clean clone: installs the tools that they need, then runs them. Arguments go to nextest, or to `cargo test` without it.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "All tests take about 20 minutes on two cores. First tests/setup.sh installs missing compilers, linkers and readers from Debian, and builds"
echo "the linker wild, which takes three minutes. tests/quick.sh takes two minutes and installs nothing."
tests/setup.sh
if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --workspace --locked "$@"
else
    echo "cargo-nextest is not installed; the tests run by cargo test"
    cargo test --workspace --locked --no-fail-fast --quiet "$@"
fi

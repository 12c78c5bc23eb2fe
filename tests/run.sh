#!/bin/bash
# The tests from a clean clone: installs what they need, then runs all of them. Arguments go to nextest.
set -euo pipefail
cd "$(dirname "$0")/.."

tests/setup.sh
cargo nextest run --workspace --locked "$@"

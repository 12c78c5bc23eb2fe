#!/bin/sh
# A Rust program by cargo: `lto-prune cargo` sets the linker, and writes a report of each link.
set -eu
cd "$(dirname "$0")"
lto_prune=${LTO_PRUNE:-lto-prune}
target=${CARGO_TARGET_DIR:-target}

cargo build --release --target-dir "$target/plain"
"$lto_prune" cargo build --release --target-dir "$target/pruned" --prune-stats

"$target/pruned/release/words" three small words
size "$target/plain/release/words" "$target/pruned/release/words"

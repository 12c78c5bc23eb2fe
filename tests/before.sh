#!/bin/sh
# Shows that tests fail with the tool of an earlier commit: tests/before.sh COMMIT TEST...
# Builds lto-prune of that commit in a worktree that is removed afterwards (the build stays in target/before), and runs today's tests of these
# names with it. A name without `::` is a fixture. For each test it prints the first line of its failure. The status is 1 if a test passes.
# LTO_PRUNE_TEST_LINKERS=lld,mold,bfd,gold is for a commit that does not support wild.
set -eu
cd "$(dirname "$0")/.."
commit=$1
shift
before=${CARGO_TARGET_DIR:-$PWD/target}/before
cargo test --quiet --locked --test it --test fixtures --no-run
mkdir -p "$before"
trap 'git worktree remove --force "$before/tree"' EXIT
git worktree add --quiet --force --detach "$before/tree" "$commit"
(cd "$before/tree" && CARGO_TARGET_DIR=$before cargo build --quiet --locked)
LTO_PRUNE_BIN=$before/debug/lto-prune
export LTO_PRUNE_BIN
status=0
for test in "$@"; do
    case $test in *::*) binary=it ;; *) binary=fixtures ;; esac
    if log=$(cargo test --quiet --locked --test "$binary" -- --exact "$test" 2>&1); then
        echo "$test: passes before"
        status=1
    else
        echo "$test: fails before: $(echo "$log" | sed -n '/panicked at/{n;p;q}')"
    fi
done
exit $status

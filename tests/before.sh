#!/bin/sh
# Whether tests fail with the tool of an earlier commit: tests/before.sh COMMIT TEST... builds that commit's lto-prune in a worktree of its
# own, which goes again (what is built stays in target/before), runs today's tests of these names (`cases::FIXTURE`) with it, and prints for
# each what came of it: the line that says what is wrong. Status 1 if one passes. LTO_PRUNE_TEST_LINKERS=lld,mold,bfd,gold: for a commit
# that doesn't know wild.
set -eu
cd "$(dirname "$0")/.."
commit=$1
shift
before=${CARGO_TARGET_DIR:-$PWD/target}/before
cargo test --quiet --locked --test it --no-run
mkdir -p "$before"
trap 'git worktree remove --force "$before/tree"' EXIT
git worktree add --quiet --force --detach "$before/tree" "$commit"
(cd "$before/tree" && CARGO_TARGET_DIR=$before cargo build --quiet --locked)
LTO_PRUNE_BIN=$before/debug/lto-prune
export LTO_PRUNE_BIN
status=0
for test in "$@"; do
    if log=$(cargo test --quiet --locked --test it -- --exact "$test" 2>&1); then
        echo "$test: passes before"
        status=1
    else
        echo "$test: fails before: $(echo "$log" | sed -n '/panicked at/{n;p;q}')"
    fi
done
exit $status

#!/bin/bash
# Builds a program by the rule of docs/lto_prune.bzl in Bazel's sandbox, on two workers, and again after a change in one source. It fails if the program has what
# it doesn't need, if an action ran again that need not, or if the program is another one than that of a single command.
#
#   bench/bazel.sh [TARGET-DIR]     the folder with the executable lto-prune (default: target/release)
#
# Bazel is Debian's (bazel-bootstrap).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
lto_prune=$(realpath "${1:-$root/target/release}/lto-prune")
work=$(mktemp -d)
trap 'cd /; bazel --output_user_root="$work/root" --noworkspace_rc shutdown >/dev/null 2>&1 || true; chmod -R u+w "$work"; rm -rf "$work"' EXIT
mkdir "$work/project"
cd "$work/project"
touch WORKSPACE
mkdir tools
cp "$lto_prune" tools/lto-prune
echo 'exports_files(["lto-prune"])' > tools/BUILD
cp "$root/docs/lto_prune.bzl" .
echo '#include <stdio.h>
int helper(int), other(int);
int dead(int x) { return helper(x); }
int main(int argc, char **argv) { printf("%d\n", helper(argc) + other(argc)); return argv == 0; }' > main.c
echo 'int helper(int x) { return x + 1; }
int dead_helper(int x) { return x - 1; }' > helper.c
echo 'int other(int x) { return x + 2; }
int dead_other(int x) { return x - 2; }' > other.c
cat > BUILD <<'BUILD'
load("//:lto_prune.bzl", "pruned_binary")

[genrule(name = n, srcs = [n + ".c"], outs = [n + ".o"], cmd = "gcc -O1 -c $< -o $@") for n in ["main", "helper", "other"]]

genrule(name = "archive", srcs = ["helper.o"], outs = ["libhelper.a"], cmd = "ar rcs $@ $<")

pruned_binary(name = "app", objects = ["main.o", "other.o", "libhelper.a"], tool = "//tools:lto-prune")
BUILD

build() {
    bazel --output_user_root="$work/root" build --jobs=2 --spawn_strategy=sandboxed --execution_log_json_file="$work/log" //:app \
        >"$work/out" 2>&1 || { grep -v linux-sandbox "$work/out"; exit 1; }
    ran=$({ grep -o '"mnemonic": "Prune[A-Za-z]*"' "$work/log" || true; } | sort | uniq -c | awk '{ gsub(/[",]/, ""); printf "%s%s %s", sep, $1, $3; sep = ", " }')
    echo "$1: $ran"
}

fail() { echo "FAILED: $*"; exit 1; }

build "first build"
[ "$ran" = "3 PruneEmit, 1 PruneLink, 1 PrunePlan, 3 PruneSummarize" ] || fail "other actions ran"
[ "$(bazel-bin/app)" = 5 ] || fail "the program prints something else"
nm bazel-bin/app | grep -q dead && fail "dead code is there"
build "nothing changed"
[ -z "$ran" ] || fail "actions ran"
sed -i 's/x + 1/x + 10/' helper.c
build "a function in an archive changed"
[ "$ran" = "1 PruneEmit, 1 PruneLink, 1 PrunePlan, 1 PruneSummarize" ] || fail "other actions ran"
[ "$(bazel-bin/app)" = 14 ] || fail "the program prints something else"
sed -i 's/helper(argc) + other(argc)/helper(argc)/' main.c
build "main calls a function less"
[ "$ran" = "2 PruneEmit, 1 PruneLink, 1 PrunePlan, 1 PruneSummarize" ] || fail "other actions ran"
(cd bazel-bin && LTO_PRUNE_LINKER=/usr/bin/ld.lld-19 "$lto_prune" main.o other.o libhelper.a -o "$work/single" --prune-no-cache)
cmp bazel-bin/app "$work/single" || fail "another program than by one command"
echo "the same bytes as by one command"

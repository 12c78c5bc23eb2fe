#!/bin/bash
# Whether the tool can be installed and used in every way that the pages name: run it as root on a machine that may be changed.
#
#   bench/clean-machine.sh bench/installed.sh
#
# From the Debian package, from the archive, and by `cargo install` from the packages that `cargo package` makes; then the tests of all recipes, with Go
# and Free Pascal. Each step prints what it checks.
set -euo pipefail

cd "$(dirname "$0")/.."
repository=$PWD
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends gcc g++ libc6-dev lld make cmake meson ninja-build pkg-config musl-tools autoconf automake mold \
    golang-go fp-compiler bash-completion >/dev/null
work=$(mktemp -d)
cd "$work"
cat >main.c <<'EOF'
int helper(int);
int dead(int x) { return helper(x); }
int main(int argc, char **argv) { (void)argv; return helper(argc) - 2; }
EOF
cat >helper.c <<'EOF'
int helper(int x) { return x + 1; }
int dead_helper(int x) { return x - 1; }
EOF

# The program $1 runs and has lost its dead functions.
pruned() {
    "$1"
    nm "$1" | grep -q ' helper$'
    ! nm "$1" | grep -q ' dead'
    echo "ok: $2"
}

"$repository/bench/package.sh" "$work/dist"
apt-get install -y -qq "$work"/dist/*.deb >/dev/null
lto-prune --version
cargo-lto-prune --help >/dev/null
gcc -O1 -B/usr/lib/lto-prune main.c helper.c -o app
pruned ./app 'the Debian package, gcc -B'
cat >CMakeLists.txt <<'EOF'
cmake_minimum_required(VERSION 3.16)
project(app C)
find_package(LtoPrune 0.1 REQUIRED)
add_executable(app main.c helper.c)
lto_prune_enable(app)
EOF
cmake -S . -B cmake >/dev/null && cmake --build cmake >/dev/null
pruned cmake/app 'the Debian package, CMake finds it'
printf "project('app', 'c')\nexecutable('app', 'main.c', 'helper.c')\n" >meson.build
meson setup meson --native-file=lto-prune.ini >/dev/null && ninja -C meson >/dev/null
pruned meson/app 'the Debian package, Meson finds its native file'
gzip -dc /usr/share/man/man1/lto-prune.1.gz | grep -q 'LTO\\-PRUNE'
bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader lto-prune; complete -p lto-prune' >/dev/null
echo 'ok: the manual page and the completions of bash are where they are looked for'
apt-get remove -y -qq lto-prune >/dev/null

mkdir unpacked && tar -C unpacked -xzf dist/*.tar.gz
mv unpacked/* "$work/moved"
"$work/moved/bin/lto-prune" install-shims "$work/moved/lib/lto-prune" >/dev/null
rm -rf app meson
gcc -O1 -B"$work/moved/lib/lto-prune" main.c helper.c -o app
pruned ./app 'the archive, gcc -B'
meson setup meson --native-file="$work/moved/lib/lto-prune/lto-prune.ini" >/dev/null && ninja -C meson >/dev/null
pruned meson/app 'the archive, Meson'

cd "$repository"
target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
cargo package --quiet --locked --no-verify -p lto-prune -p lto-prune-summaries
for crate in lto-prune lto-prune-summaries; do tar -C "$work" -xzf "$target/package/$crate"-[0-9]*.crate; done
# The lock file names a registry that does not have the library of this version yet.
cargo install --quiet --root "$work/cargo" --path "$work"/lto-prune-[0-9]* \
    --config "patch.crates-io.lto-prune-summaries.path=\"$(echo "$work"/lto-prune-summaries-[0-9]*)\""
"$work/cargo/bin/lto-prune" --version
cd "$work"
"$work/cargo/bin/lto-prune" main.c helper.c -o app
pruned ./app 'cargo install from the package'

cd "$repository"
cargo test --quiet --locked --test it -- recipes:: --test-threads=2
echo 'ok: the recipes'

#!/bin/sh
# The benchmark's share of CI: small programs, their kept sections compared with lld's garbage collection, functional checks with every linker, resolved calls,
# random programs, small links of every feature, links that are killed, and damaged links.
#
# It builds with the test profile, as the tests do; CARGO_TARGET_DIR is respected.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
"$here/fetch.sh" bzip2 lua5.4
"$here/build.sh" bzip2 lua cpp
cd "$here/.."
cargo build --quiet --locked -p lto-prune -p bench
cargo run --quiet --locked -p bench -- gcdiff --only=bzip2,lua,cpp
cargo run --quiet --locked -p bench -- check --only=bzip2,lua,cpp
cargo run --quiet --locked -p bench -- audit --only=bzip2,lua,cpp --runs=3
cargo run --quiet --locked -p bench -- sites --only=bzip2,lua,cpp
cargo run --quiet --locked -p bench -- soak --seeds=0..36
cargo run --quiet --locked -p bench -- soak --level=pointers --seeds=0..12
cargo run --quiet --locked -p bench -- soak --programs=unwind --one-compiler --seeds=0..16
cargo run --quiet --locked -p bench -- differ --count=160 --seed=100000
cargo run --quiet --locked -p bench -- kills --count=40
cargo run --quiet --locked -p bench -- mutate --count=200 --seeds=100000..100200

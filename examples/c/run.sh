#!/bin/sh
# A C program by gcc: a plain link, and the same command line with the shims of lto-prune.
set -eu
cd "$(dirname "$0")"
lto_prune=${LTO_PRUNE:-lto-prune}
mkdir -p build
rm -rf build/shims
"$lto_prune" install-shims build/shims

# Objects as they come from any build: without -ffunction-sections.
gcc -O2 -c main.c -o build/main.o
gcc -O2 -c shapes.c -o build/shapes.o
gcc build/main.o build/shapes.o -o build/plain
# -B makes gcc take the linker of that folder. Options of lto-prune go to the linker.
gcc -B build/shims build/main.o build/shapes.o -o build/pruned -Wl,--prune-stats,--prune-report=build/pruned.json

./build/pruned
size build/plain build/pruned
"$lto_prune" audit garbage build/pruned.json

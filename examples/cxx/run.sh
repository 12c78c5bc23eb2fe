#!/bin/sh
# A C++ program with a static library. lto-prune itself is the compiler driver: it finds that the objects need the C++ library.
set -eu
cd "$(dirname "$0")"
lto_prune=${LTO_PRUNE:-lto-prune}
mkdir -p build

g++ -O2 -c main.cpp -o build/main.o
g++ -O2 -c parser.cpp -o build/parser.o
ar rcs build/libparser.a build/parser.o
g++ build/main.o build/libparser.a -o build/plain
"$lto_prune" build/main.o build/libparser.a -o build/pruned --prune-stats --prune-report=build/pruned.json

./build/pruned 25
size build/plain build/pruned
# The path of references that keeps a function.
"$lto_prune" audit why 'parse*' build/pruned.json

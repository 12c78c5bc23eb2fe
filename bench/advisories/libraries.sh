#!/bin/sh
# Build the libraries of bench/work, which bench/fetch.sh and bench/build.sh made, with debug information: libraries.sh FOLDER
# An archive that is there stays. gcc writes no debug information of functions that -fipa-icf makes equal.
set -eu
work=$(cd "$(dirname "$0")/../work" && pwd)
mkdir -p "$1"
cd "$1"
build() {
    [ -e "$1" ] && return
    archive=$1
    shift
    rm -f ./*.o
    gcc -g -O2 -fPIC -w -fno-ipa-icf -DSQLITE_ENABLE_SESSION -DSQLITE_ENABLE_PREUPDATE_HOOK -c "$@"
    ar rcs "$archive" ./*.o
}
build libz.a "$work"/src/zlib/*.c
build libsqlite3.a "$work/sqlite-amalgamation/sqlite3.c"

#!/bin/sh
# Build the objects of the benchmark programs, and record how each is linked, so that the link alone can be run again.
#
#   build.sh [--bitcode] [lua bzip2 minigzip zstd sqlite3 cpp hexyl]      default: all; sources by fetch.sh
#
# Each PROGRAM in each MODE (gcc-mono, gcc-fs, clang-mono, clang-fs; fs = -ffunction-sections -fdata-sections; for Rust
# just "rust") gets a folder work/obj/PROGRAM/MODE with
#   link.args   the driver and its arguments, one per line, without -o and without a choice of linker
#   ld.args     what the driver then gives the linker, one per line
# both to be used from inside that folder.
# --bitcode: instead of all modes just clang-bitcode, whose objects are LLVM's, for `bench sites`; not for Rust.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
work=$here/work
jobs=$(nproc)
bitcode=
if [ "${1-}" = --bitcode ]; then
    bitcode=yes
    shift
fi
[ $# -gt 0 ] || set -- lua bzip2 minigzip zstd sqlite3 cpp hexyl

: "${GCC:=gcc}" "${GXX:=g++}" "${CLANG:=clang-19}" "${CLANGXX:=clang++-19}"

# compile CC FLAGS SOURCE...: one object for each source, $jobs at a time, in the current folder.
compile() {
    cc=$1 flags=$2
    shift 2
    for source in "$@"; do
        object=$(basename "$source")
        printf '%s %s -c %s -o %s\n' "$cc" "$flags" "$source" "${object%.*}.o"
    done | xargs -P "$jobs" -d '\n' -n 1 sh -ec '$0'
}

archive() {
    rm -f "$1"
    ${bitcode:+llvm-}ar${bitcode:+-19} rc "$@"
}

# The pieces below run inside the folder of the mode, with $cc, $cxx and $flags set, and print the driver line's tail.
build_lua() {
    src=$work/src/lua5.4/src
    set -- "$src"/*.c
    library=
    for c in "$@"; do
        case ${c##*/} in
        lua.c | luac.c) ;;
        *) library="$library $c" ;;
        esac
    done
    # Debian's package generates this header for its module search path.
    echo '#define DEB_HOST_MULTIARCH "x86_64-linux-gnu"' >lua5.4-deb-multiarch.h
    f="$flags -I. -std=gnu99 -DLUA_COMPAT_5_3 -DLUA_USE_LINUX"
    compile "$cc" "$f" $library "$src/lua.c"
    archive liblua.a $(for c in $library; do c=${c##*/}; echo "${c%.c}.o"; done)
    line "$cc" lua.o liblua.a -lm -Wl,-E -ldl
}

build_bzip2() {
    src=$work/src/bzip2
    names="blocksort huffman crctable randtable compress decompress bzlib"
    compile "$cc" "$flags -D_FILE_OFFSET_BITS=64" $(for n in $names bzip2; do echo "$src/$n.c"; done)
    archive libbz2.a $(for n in $names; do echo "$n.o"; done)
    line "$cc" bzip2.o libbz2.a
}

build_minigzip() {
    src=$work/src/zlib
    names="adler32 crc32 deflate infback inffast inflate inftrees trees zutil compress uncompr gzclose gzlib gzread gzwrite"
    compile "$cc" "$flags -D_LARGEFILE64_SOURCE=1 -DHAVE_HIDDEN -DHAVE_UNISTD_H -DHAVE_STDARG_H -I$src" \
        $(for n in $names; do echo "$src/$n.c"; done) "$src/test/minigzip.c"
    archive libz.a $(for n in $names; do echo "$n.o"; done)
    line "$cc" minigzip.o libz.a
}

build_zstd() {
    src=$work/src/libzstd
    f="$flags -DXXH_NAMESPACE=ZSTD_ -DZSTD_MULTITHREAD -DZSTD_LEGACY_SUPPORT=5"
    f="$f -I$src/lib -I$src/lib/common -I$src/lib/dictBuilder -I$src/lib/legacy -I$src/programs"
    set -- "$src"/lib/common/*.c "$src"/lib/compress/*.c "$src"/lib/decompress/*.c "$src"/lib/decompress/*.S \
        "$src"/lib/dictBuilder/*.c "$src"/lib/legacy/zstd_v05.c "$src"/lib/legacy/zstd_v06.c \
        "$src"/lib/legacy/zstd_v07.c "$src"/programs/*.c
    compile "$cc" "$f" "$@"
    line "$cc" -pthread ./*.o
}

build_sqlite3() {
    amalgamation
    src=$work/sqlite-amalgamation
    f="$flags -I$src -DSQLITE_THREADSAFE=1 -DSQLITE_ENABLE_EXPLAIN_COMMENTS -DSQLITE_ENABLE_UNKNOWN_SQL_FUNCTION"
    f="$f -DSQLITE_ENABLE_STMTVTAB -DSQLITE_ENABLE_DBPAGE_VTAB -DSQLITE_ENABLE_DBSTAT_VTAB -DSQLITE_ENABLE_BYTECODE_VTAB"
    f="$f -DSQLITE_ENABLE_OFFSET_SQL_FUNC -DSQLITE_ENABLE_FTS4 -DSQLITE_ENABLE_FTS5 -DSQLITE_ENABLE_RTREE"
    f="$f -DSQLITE_ENABLE_GEOPOLY -DSQLITE_ENABLE_MATH_FUNCTIONS -DSQLITE_ENABLE_SESSION -DSQLITE_ENABLE_PREUPDATE_HOOK"
    compile "$cc" "$f" "$src/sqlite3.c" "$src/shell.c"
    line "$cc" shell.o sqlite3.o -lm -ldl -lpthread
}

# One C file of all of SQLite, and the shell, as its own Makefile makes them.
amalgamation() {
    [ -e "$work/sqlite-amalgamation/shell.c" ] && return
    mkdir -p "$work/sqlite-amalgamation"
    (
        cd "$work/sqlite-amalgamation"
        if ! command -v tclsh >/dev/null; then
            mkdir -p "$work/tcl/bin"
            ln -sf ../usr/bin/tclsh8.6 "$work/tcl/bin/tclsh"
            export PATH="$work/tcl/bin:$PATH" LD_LIBRARY_PATH="$work/tcl/usr/lib/x86_64-linux-gnu"
            export TCL_LIBRARY="$work/tcl/usr/share/tcltk/tcl8.6"
        fi
        make -s -f "$work/src/sqlite3/Makefile.linux-gcc" TOP="$work/src/sqlite3" \
            BCC="$GCC -O0" sqlite3.c shell.c >make.log 2>&1 || {
            tail -20 make.log >&2
            exit 1
        }
    )
}

build_cpp() {
    compile "$cxx" "$flags -std=c++17" "$here"/cpp/*.cpp
    line "$cxx" ./*.o
}

hexyl_version=0.16.0
build_hexyl() {
    # As `cargo install` builds it, but without the crate's own choice of LTO, which would leave one object to link;
    # the recorder keeps the objects and rlibs of the last link.
    CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        BENCH_PROGRAM=hexyl BENCH_OBJ=$PWD CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER="$here/record-cc.sh" \
        CARGO_TARGET_DIR="$work/hexyl-target" \
        cargo install --quiet --locked --force --no-track --root "$work/hexyl-root" hexyl --version "=$hexyl_version"
    record_ld
}

# line DRIVER ARGUMENT...: write link.args, and ld.args by running the driver with a recorder as its linker.
line() {
    printf '%s\n' "$@" >link.args
    record_ld
}

record_ld() {
    mkdir -p "$work/recorder"
    ln -sf "$here/record-ld.sh" "$work/recorder/ld"
    driver=$(head -n 1 link.args)
    case $driver in
    clang*) choice=--ld-path=$work/recorder/ld ;;
    *) choice=-B$work/recorder ;;
    esac
    tail -n +2 link.args | BENCH_RECORD=$PWD/ld.args xargs -d '\n' "$driver" "$choice" -o a.out
    [ -s ld.args ]
}

# mode PROGRAM MODE CC CXX FLAGS
mode() {
    dir=$work/obj/$1/$2
    [ -s "$dir/ld.args" ] && return
    rm -rf "$dir"
    mkdir -p "$dir"
    cc=$3 cxx=$4 flags=$5
    # Not in a condition: the shell would ignore failures inside. ld.args is written last, so half a build is none.
    echo "building $1 $2"
    (
        cd "$dir"
        "build_$1"
    )
}

for program in "$@"; do
    case $bitcode$program in
    yeshexyl) ;;
    yes*) mode "$program" clang-bitcode "$CLANG" "$CLANGXX" "-O2 -w -flto" ;;
    hexyl) mode hexyl rust cc c++ "" ;;
    *)
        fs="-ffunction-sections -fdata-sections"
        mode "$program" gcc-mono "$GCC" "$GXX" "-O2 -w"
        mode "$program" gcc-fs "$GCC" "$GXX" "-O2 -w $fs"
        mode "$program" clang-mono "$CLANG" "$CLANGXX" "-O2 -w"
        mode "$program" clang-fs "$CLANG" "$CLANGXX" "-O2 -w $fs"
        ;;
    esac
done

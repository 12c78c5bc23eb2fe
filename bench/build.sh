#!/bin/sh
# Build the objects of the benchmark programs, and record how each is linked, so that the link alone can be run again.
#
#   build.sh [--mains|--debug|--lto|--others|--closed] [lua bzip2 minigzip zstd sqlite3 cpp calls hexyl]      default: all; sources by fetch.sh
#
# Each PROGRAM in each MODE (gcc-mono, gcc-fs, clang-mono, clang-fs; fs = -ffunction-sections -fdata-sections; for Rust
# just "rust") gets a folder work/obj/PROGRAM/MODE with
#   link.args   the driver and its arguments, one per line, without -o and without a choice of linker
#   ld.args     what the driver then gives the linker, one per line
# both to be used from inside that folder.
# --mains: instead the programs of bench/mains and bench/advisories in mode main, with Debian's static libraries (bench/mains/setup.sh, bench/advisories/setup.sh).
# A name with -g is linked with libraries that bench/advisories/libraries.sh builds.
# --debug: instead gcc-debug and clang-debug, as gcc-mono and clang-mono but with -g, for `bench links` and `bench debug`; for Rust rust-debug.
# --others: instead ten programs in mode gcc-others, for `bench links` alone, so that nothing is tuned for them: gawk, redis, git and busybox as their own build systems
# make them (`fetch.sh gawk redis git busybox`), ninja with -static, fd (Rust), and small programs against the static libraries of llvm-19-dev (with libz3-dev, zlib1g-dev, libzstd-dev
# and libxml2-dev), libssl-dev, libprotobuf-dev and libpng-dev.
# --closed: instead lua, zstd, sqlite3, ninja and gperf in mode gcc-closed, for `bench unwind`: they load no code at run time and take no backtraces, and C++ is compiled with -fno-exceptions;
# `fetch.sh ninja-build gperf` fetches the last two.
# --lto: instead modes for `bench check`, all linked by lld: lto-thin (bitcode with summaries), lto-full, lto-fat (both bitcode and
# code, linked as code), lto-taken (the same, linked as bitcode), lto-half (every other object is native). For Rust: rustc -C linker-plugin-lto, rustc's own fat LTO, bitcode
# embedded in code, and bitcode of the program alone.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
work=$here/work
jobs=$(nproc)
# Of the mode: whether archives hold bitcode, what every other object is compiled with besides, and what the link is.
bitcode= half= link_flags= static=
kind=native
case ${1-} in
--mains | --debug | --lto | --closed | --others)
    kind=${1#--}
    shift
    ;;
esac
[ $# -gt 0 ] || [ $kind != others ] || set -- gawk redis git busybox ninja llvm digest describe png fd
if [ $# -eq 0 ] && [ $kind = mains ]; then
    for source in "$here"/mains/*.c "$here"/mains/*.cc "$here"/advisories/*.c; do
        name=${source##*/}
        set -- "$@" "${name%.*}"
    done
    # shellcheck disable=SC2046 # the names are words
    set -- "$@" $(grep -o '[a-z0-9][a-z0-9-]*-g\>' "$here/advisories/list.txt" | sort -u)
fi
[ $# -gt 0 ] || [ $kind != closed ] || set -- lua zstd sqlite3 ninja gperf
[ $# -gt 0 ] || set -- lua bzip2 minigzip zstd sqlite3 cpp calls hexyl

: "${GCC:=gcc}" "${GXX:=g++}" "${CLANG:=clang-19}" "${CLANGXX:=clang++-19}"

# compile CC FLAGS SOURCE...: one object for each source, $jobs at a time, in the current folder.
compile() {
    cc=$1 flags=$2
    shift 2
    besides=
    for source in "$@"; do
        object=$(basename "$source")
        if [ -n "$half" ] && [ -z "$besides" ]; then besides=$half; else besides=; fi
        printf '%s %s %s -c %s -o %s\n' "$cc" "$flags" "$besides" "$source" "${object%.*}.o"
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
    [ $kind != closed ] || f="$flags -I. -std=gnu99 -DLUA_COMPAT_5_3 -DLUA_USE_POSIX"
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
    [ $kind != closed ] || f="$f -DBACKTRACE_ENABLE=0"
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
    [ $kind != closed ] || f="$f -DSQLITE_OMIT_LOAD_EXTENSION"
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

build_calls() {
    awk -f "$here/calls/generate.awk" >"$work/calls.c"
    compile "$cc" "$flags" "$work/calls.c"
    line "$cc" ./*.o
}

build_ninja() {
    src=$work/src/ninja-build/src
    set --
    for c in "$src"/*.cc; do
        case ${c##*/} in
        *test.cc | *-win32.cc | *.in.cc | browse.cc | hash_collision_bench.cc) ;;
        *) set -- "$@" "$c" ;;
        esac
    done
    compile "$cxx" "$flags -std=c++11 -fno-exceptions -fno-rtti -DUSE_PPOLL" "$@"
    line "$cxx" $static ./*.o
}

build_gperf() {
    src=$work/src/gperf
    printf '#define PACKAGE_VERSION "3.1"\n#define HAVE_DYNAMIC_ARRAY 1\n' >config.h
    compile "$cxx" "$flags -w -std=gnu++98 -fno-exceptions -I. -I$src/lib" "$src"/src/*.cc "$src"/lib/*.cc
    line "$cxx" ./*.o
}

build_llvm() {
    # shellcheck disable=SC2046 # the names are words
    compile "$cxx" "$flags -std=c++17 -fno-rtti -I$(llvm-config-19 --includedir)" "$here/others/optimise.cpp"
    # shellcheck disable=SC2046
    line "$cxx" optimise.o $(llvm-config-19 --link-static --ldflags --libs --system-libs passes irreader)
}

build_digest() {
    compile "$cc" "$flags" "$here/others/digest.c"
    line "$cc" digest.o -l:libcrypto.a -ldl -lpthread
}

build_describe() {
    compile "$cxx" "$flags -std=c++17" "$here/others/describe.cpp"
    line "$cxx" describe.o -l:libprotobuf.a -lz -lpthread
}

build_png() {
    compile "$cc" "$flags" "$here/mains/png.c"
    line "$cc" png.o -l:libpng16.a -l:libz.a -lm
}

# own PACKAGE OUTPUT COMMAND: a project by its own build system, without debug information, whose driver $CC the recorder stands in for when it links OUTPUT.
own() {
    cp -a "$work/src/$1" build
    (cd build && BENCH_PROGRAM=$2 BENCH_OBJ=$dir CC=$here/record-cc.sh sh -ec "$3") >build.log 2>&1
    rm -rf build
    record_ld
}

build_gawk() {
    own gawk gawk './configure -q --disable-nls --disable-extensions CC="$CC" CFLAGS=-O2 && make -s -C support && make -s -j2 gawk'
}

build_redis() {
    own redis redis-server 'make -s -j2 CC="$CC" MALLOC=libc OPTIMIZATION=-O2 DEBUG= -C src redis-server'
}

build_git() {
    own git git 'make -s -j2 CC="$CC" CFLAGS=-O2 NO_OPENSSL=1 NO_CURL=1 NO_EXPAT=1 NO_GETTEXT=1 NO_TCLTK=1 NO_PERL=1 NO_PYTHON=1 git'
}

build_busybox() {
    own busybox busybox_unstripped 'make -s defconfig && make -s -j2 CC="$CC"'
}

# A program whose first lines have its flags, its libraries and its output.
build_main() {
    name=${program%-g}
    source=$(ls "$here/mains/$name".c "$here/mains/$name".cc "$here/advisories/$name".c 2>/dev/null | head -n 1)
    header() { sed -n "s|^// $1: ||p" "$source" | head -n 1; }
    case $source in
    *.cc) driver=$cxx ;;
    *) driver=$cc ;;
    esac
    libraries=$(header libraries) debug=
    if [ "$name" != "$program" ]; then
        "$here/advisories/libraries.sh" "$work/advisories"
        debug=-g libraries="-L$work/advisories $libraries"
    fi
    # shellcheck disable=SC2046,SC2086 # the flags are words
    "$driver" -O2 -fPIE $debug $(header cflags) -c "$source" -o main.o
    printf 'text=$("$1")\necho "$text"\n[ "$text" = "%s" ]\n' "$(header prints)" >check.sh
    # shellcheck disable=SC2086
    line "$driver" main.o $libraries
}

# A crate's program as `cargo install` builds it: crate NAME VERSION PROGRAM.
crate() {
    # But without the crate's own choice of LTO, which would leave one object to link;
    # the recorder keeps the objects and rlibs of the last link. $flags are rustc's, for the program or for all of it.
    lto=off crates=
    case $mode in
    lto-full) lto=fat ;;
    lto-half) crates=program ;;
    # The crate's own profile strips.
    rust-debug) export CARGO_PROFILE_RELEASE_STRIP=none ;;
    esac
    # A folder of its own, since cargo doesn't ask what the linker is before it takes what is there.
    CARGO_PROFILE_RELEASE_LTO=$lto CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        BENCH_PROGRAM=$3 BENCH_OBJ=$PWD CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER="$here/record-cc.sh" \
        CARGO_TARGET_DIR="$work/$1-target/$mode" \
        RUSTC_WRAPPER="$here/record-rustc.sh" BENCH_RUSTFLAGS=$flags BENCH_CRATES=$crates \
        cargo install --quiet --locked --force --no-track --root "$work/$1-root" "$1" --version "=$2"
    record_ld
}

build_hexyl() {
    crate hexyl 0.16.0 hexyl
}

build_fd() {
    crate fd-find 10.2.0 fd
}

# line DRIVER ARGUMENT...: write link.args, and ld.args by running the driver with a recorder as its linker.
line() {
    driver=$1
    shift
    # shellcheck disable=SC2086 # the flags are words
    printf '%s\n' "$driver" $link_flags "$@" >link.args
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

# mode PROGRAM MODE CC CXX FLAGS [BUILDER]
mode() {
    dir=$work/obj/$1/$2
    [ -s "$dir/ld.args" ] && return
    rm -rf "$dir"
    mkdir -p "$dir"
    mode=$2 cc=$3 cxx=$4 flags=$5
    # Not in a condition: the shell would ignore failures inside. ld.args is written last, so half a build is none.
    echo "building $1 $2"
    (
        cd "$dir"
        "build_${6:-$1}"
    )
}

# lto PROGRAM: the modes of --lto.
lto() {
    bitcode=yes
    if [ "$1" = hexyl ]; then
        mode hexyl lto-thin cc c++ "-Clinker-plugin-lto"
        mode hexyl lto-full cc c++ ""
        mode hexyl lto-fat cc c++ "-Cembed-bitcode=yes"
        mode hexyl lto-half cc c++ "-Clinker-plugin-lto"
        return
    fi
    link_flags="-flto=thin -O2"
    mode "$1" lto-thin "$CLANG" "$CLANGXX" "-O2 -w -flto=thin"
    half=-flto=thin
    mode "$1" lto-half "$CLANG" "$CLANGXX" "-O2 -w"
    half=
    link_flags="-flto -O2"
    mode "$1" lto-full "$CLANG" "$CLANGXX" "-O2 -w -flto"
    link_flags=
    mode "$1" lto-fat "$CLANG" "$CLANGXX" "-O2 -w -flto=thin -ffat-lto-objects"
    link_flags="-flto=thin -O2 -Wl,--fat-lto-objects"
    mode "$1" lto-taken "$CLANG" "$CLANGXX" "-O2 -w -flto=thin -ffat-lto-objects"
}

for program in "$@"; do
    case $kind-$program in
    debug-hexyl) mode hexyl rust-debug cc c++ "-Cdebuginfo=2" ;;
    debug-*)
        mode "$program" gcc-debug "$GCC" "$GXX" "-O2 -w -g"
        mode "$program" clang-debug "$CLANG" "$CLANGXX" "-O2 -w -g"
        ;;
    mains-*) mode "$program" main "$GCC" "$GXX" "" main ;;
    others-fd) mode fd gcc-others cc c++ "" ;;
    others-*)
        static=-static
        mode "$program" gcc-others "$GCC" "$GXX" "-O2 -w"
        ;;
    closed-*) mode "$program" gcc-closed "$GCC" "$GXX" "-O2 -w" ;;
    lto-*) lto "$program" ;;
    *-hexyl) mode hexyl rust cc c++ "" ;;
    *)
        fs="-ffunction-sections -fdata-sections"
        mode "$program" gcc-mono "$GCC" "$GXX" "-O2 -w"
        mode "$program" gcc-fs "$GCC" "$GXX" "-O2 -w $fs"
        mode "$program" clang-mono "$CLANG" "$CLANGXX" "-O2 -w"
        mode "$program" clang-fs "$CLANG" "$CLANGXX" "-O2 -w $fs"
        ;;
    esac
done

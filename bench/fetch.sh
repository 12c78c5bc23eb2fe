#!/bin/sh
# Unpack Debian's source packages of the benchmark programs under work/src/NAME.
#
#   fetch.sh [lua5.4 bzip2 zlib libzstd sqlite3]      default: all of them
#
# The deb-src lines are derived from the machine's own deb lines and live, with their indexes, under work/apt:
# the system's apt configuration is read and never changed, and root is not needed.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
work=$here/work
apt=$work/apt
mkdir -p "$apt/parts" "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/download" "$work/src"
[ $# -gt 0 ] || set -- lua5.4 bzip2 zlib libzstd sqlite3

. /etc/os-release
suite=$VERSION_CODENAME

# Only suites of the distribution itself: other vendors' archives seldom have sources, and none that we want.
derive_sources() {
    for f in /etc/apt/sources.list.d/*.sources; do
        [ -e "$f" ] || continue
        # Stanzas are separated by blank lines (deb822); comments are dropped.
        grep -v '^#' "$f" | awk -v RS= -v suite="$suite" '
            $0 ~ "(^|\n)Suites:[^\n]*[ \t]" suite "($|[ \t\n-])" {
                sub(/(^|\n)Types:[^\n]*/, "\nTypes: deb-src"); sub(/^\n/, ""); print $0 "\n"
            }' >>"$apt/parts/bench.sources"
    done
    for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -e "$f" ] || continue
        sed -n 's/^deb[ \t]\{1,\}/deb-src /p' "$f" |
            awk -v suite="$suite" '{ i = 2; if ($2 ~ /^\[/) { while ($i !~ /\]$/) i++; i++ }
                if ($(i + 1) == suite || index($(i + 1), suite "-") == 1) print }' >>"$apt/parts/bench.list"
    done
}
rm -f "$apt"/parts/bench.*
derive_sources

apt_with() {
    tool=$1
    shift
    "$tool" -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$apt/parts" \
        -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root \
        -o Debug::NoLocking=1 "$@"
}

# Download a source package. A mirror may list a version that it does not hold: then an older one.
download() {
    for version in $(apt_with apt-cache showsrc "$1" | sed -n 's/^Version: //p' | sort -urV); do
        rm -f ./*
        apt_with apt-get source --download-only "$1=$version" && return
    done
    echo "fetch.sh: no version of $1 can be downloaded" >&2
    return 1
}

updated=
for name in "$@"; do
    [ -e "$work/src/$name/.unpacked" ] && continue
    if [ -z "$updated" ]; then
        apt_with apt-get update
        updated=1
    fi
    rm -rf "$apt/download/$name" "$work/src/$name"
    mkdir -p "$apt/download/$name"
    # apt checks every file against the signed index; dpkg-source applies Debian's patches.
    (cd "$apt/download/$name" && download "$name" &&
        dpkg-source --no-check -x ./*.dsc "$work/src/$name" >/dev/null)
    basename "$apt/download/$name"/*.dsc .dsc >"$work/src/$name/.unpacked"
    echo "fetched $(cat "$work/src/$name/.unpacked")"
done

# The amalgamation of sqlite3 is made by Tcl scripts; without an installed tclsh, Debian's is unpacked (not installed).
case " $* " in
*" sqlite3 "*)
    if ! command -v tclsh >/dev/null && [ ! -e "$work/tcl/usr/bin/tclsh8.6" ]; then
        mkdir -p "$work/tcl" "$apt/download/tcl"
        (cd "$apt/download/tcl" && apt-get -qq -o APT::Sandbox::User=root download tcl8.6 libtcl8.6 &&
            for deb in ./*.deb; do dpkg-deb -x "$deb" "$work/tcl"; done)
        echo "unpacked tcl8.6"
    fi
    ;;
esac

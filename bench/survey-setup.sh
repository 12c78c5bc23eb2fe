#!/bin/bash
# Check for what `bench survey` needs, and install what is missing: as root, or with sudo. The sources are fetched by
# `bench survey` itself, without root.
set -euo pipefail
# command:package
needs=(
    gcc:gcc g++:g++ clang-19:clang-19 ccache:ccache ld.lld-19:lld-19 mold:mold ld.bfd:binutils ld.gold:binutils make:make cmake:cmake
    meson:meson ninja:ninja-build autoconf:autoconf automake:automake libtoolize:libtool libtool:libtool-bin m4:m4 bison:bison msgfmt:gettext
    perl:perl python3:python3 tclsh:tcl dpkg-source:dpkg-dev xz:xz-utils
)
# file:package
files=(/usr/include/ncurses.h:libncurses-dev /usr/include/x86_64-linux-gnu/gmp.h:libgmp-dev)
missing=()
for need in "${needs[@]}"; do
    command -v "${need%%:*}" >/dev/null || missing+=("${need##*:}")
done
for need in "${files[@]}"; do
    [ -e "${need%%:*}" ] || missing+=("${need##*:}")
done
command -v cargo >/dev/null || { echo "cargo is missing: see rustup"; exit 1; }
if [ ${#missing[@]} -gt 0 ]; then
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
    echo "installing ${missing[*]}"
    as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

#!/bin/bash
# Installs the tools that the tests need: compilers, linkers and readers from Debian, and the linker wild.
# It does nothing if all of them are installed.
set -euo pipefail

# command:package, for each command that a test calls.
needs=(
    gcc:gcc g++:g++ clang-19:clang-19 clang++-19:clang-19 ld.lld-19:lld-19 llvm-remarkutil-19:llvm-19
    llvm-addr2line-19:llvm-19 llvm-dwarfdump-19:llvm-19 gdb:gdb clang-14:clang-14 opt-14:llvm-14 mold:mold ld.bfd:binutils ld.gold:binutils readelf:binutils ar:binutils
    addr2line:binutils eu-elflint:elfutils eu-stack:elfutils cmake:cmake meson:meson autoconf:autoconf automake:automake zsh:zsh fish:fish dpkg-source:dpkg-dev make:make setfacl:acl xz:xz-utils bzip2:bzip2 ninja:ninja-build file:file git:git chromium:chromium tar:tar musl-gcc:musl-tools
)

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

missing=()
for need in "${needs[@]}"; do
    command -v "${need%%:*}" >/dev/null || missing+=("${need##*:}")
done
# Static links need libc.a.
[ -e /usr/lib/x86_64-linux-gnu/libc.a ] || missing+=(libc6-dev)
if [ ${#missing[@]} -gt 0 ]; then
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
    echo "installing ${missing[*]}"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

# Not in Debian. The build takes two to three minutes on two cores; later versions need a later rustc.
if ! command -v wild >/dev/null; then
    cargo install wild-linker --version 0.10.0 --locked
fi

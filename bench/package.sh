#!/bin/bash
# Makes a Debian package and an archive of the tool, and prints their names.
#
#   package.sh [FOLDER]     FOLDER takes both files; default: dist in cargo's target folder
#
# Both have the program, cargo's subcommand, the folder of shims (with the files for CMake and Meson), the manual page, the completions of bash,
# zsh and fish, and the pages of docs. The archive unpacks to one folder; move that, and run its lto-prune install-shims on its lib/lto-prune.
set -euo pipefail

cd "$(dirname "$0")/.."
target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
out=${1:-$target/dist}
cargo build --quiet --release --locked
version=$("$target/release/lto-prune" --version | cut -d' ' -f2)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

root=$stage/deb
usr=$root/usr
install -D -t "$usr/bin" "$target/release/lto-prune" "$target/release/cargo-lto-prune"
# Links that hold wherever the folder lies, and a native file that names the installed one.
"$usr/bin/lto-prune" install-shims "$usr/lib/lto-prune" >/dev/null
find "$usr/lib/lto-prune" -type l -exec ln -sfn ../../bin/lto-prune {} \;
sed -i "s|'.*/usr/lib/lto-prune'|'/usr/lib/lto-prune'|" "$usr/lib/lto-prune/lto-prune.ini"
mkdir -p "$usr/lib/cmake/LtoPrune" "$usr/share/meson/native" "$usr/share/doc/lto-prune/docs"
for file in LtoPruneConfig.cmake LtoPruneConfigVersion.cmake; do
    ln -s "../../lto-prune/$file" "$usr/lib/cmake/LtoPrune/$file"
done
ln -s ../../../lib/lto-prune/lto-prune.ini "$usr/share/meson/native/lto-prune.ini"
completed() { install -D -m 644 <("$usr/bin/lto-prune" completions "$1") "$usr/share/$2"; }
completed bash bash-completion/completions/lto-prune
completed zsh zsh/vendor-completions/_lto-prune
completed fish fish/vendor_completions.d/lto-prune.fish
completed man man/man1/lto-prune.1
gzip -9n "$usr/share/man/man1/lto-prune.1"
cp README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$usr/share/doc/lto-prune/"
cp docs/*.md "$usr/share/doc/lto-prune/docs/"
cat LICENSE-MIT LICENSE-APACHE >"$usr/share/doc/lto-prune/copyright"

archive=lto-prune-$version-x86_64-linux
mkdir -p "$out"
cp -a "$usr" "$stage/$archive"
tar -C "$stage" --owner=0 --group=0 --sort=name -czf "$out/$archive.tar.gz" "$archive"

mkdir "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<EOF
Package: lto-prune
Version: $version
Architecture: amd64
Maintainer: the developers of lto-prune <lto-prune@localhost>
Section: devel
Priority: optional
Depends: libc6 (>= 2.34), libgcc-s1
Recommends: lld | binutils
Installed-Size: $(du -ks "$usr" | cut -f1)
Description: link-time pruning of x86_64 ELF objects
 It stands in front of lld, mold, GNU ld, gold or wild, and removes the functions
 and objects that a program cannot reach, also from objects that were built without
 -ffunction-sections. It also says what each byte of an ELF file is.
EOF
dpkg-deb --root-owner-group --build "$root" "$out/lto-prune_${version}_amd64.deb" >/dev/null
printf '%s\n' "$out/lto-prune_${version}_amd64.deb" "$out/$archive.tar.gz"

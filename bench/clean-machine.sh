#!/bin/sh
# Do the README's commands work on a machine with nothing but Debian's base system, git and rustup's toolchain?
#
#   clean-machine.sh [COMMAND...]     as root; default: the first three commands of the README's ```sh blocks
#
# It makes such a machine by debootstrap in a temporary folder, copies this machine's rustup toolchain in (not its
# registry), clones this repository at HEAD, runs each command there by chroot, and deletes the folder. Network
# and DNS are the machine's own.
set -eu
# The home of the superuser in the new root.
root_home=root

here=$(cd "$(dirname "$0")" && pwd)
repo=$(git -C "$here" rev-parse --show-toplevel)
if [ "${CLEAN_MACHINE_NAMESPACE:-}" = "" ]; then
    # Mounts made below belong to this process tree and vanish with it, whatever happens.
    export CLEAN_MACHINE_NAMESPACE=1
    exec unshare --mount --propagation private "$0" "$@"
fi

if [ $# -eq 0 ]; then
    list=$(awk '/^```sh/ { on = 1; next } /^```/ { on = 0 } on && NF && !/^#/ { sub(/^\$ /, ""); print }' "$repo/README.md" |
        head -n 3)
    [ "$(printf '%s\n' "$list" | wc -l)" -eq 3 ] || {
        echo "clean-machine.sh: the README does not hold three commands" >&2
        exit 2
    }
else
    list=$(printf '%s\n' "$@")
fi

. /etc/os-release
suite=bookworm
# The archive that this machine uses, so that a mirror or a proxy of the site is used here too.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | awk -v suite="$VERSION_CODENAME" '
    $1 == "URIs:" { uri = $2 } $1 == "Suites:" && $2 == suite { print uri; exit }
    $1 == "deb" && $0 ~ " " suite " " { for (i = 2; i <= NF; i++) if ($(i + 1) == suite) { print $i; exit } }')

root=$(mktemp -d "${TMPDIR:-/tmp}/clean-machine.XXXXXX")
cleanup() {
    umount -l "$root/proc" "$root/dev" 2>/dev/null || true
    rm -rf --one-file-system "$root"
}
# apt gives up root to download, and must be able to enter.
chmod 755 "$root"
trap cleanup EXIT
trap 'exit 130' INT TERM

echo "== debootstrap $suite"
debootstrap --include=ca-certificates,git "$suite" "$root" $mirror >"$root.log" 2>&1 || {
    tail -20 "$root.log" >&2
    exit 2
}
rm -f "$root.log"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
if ls /usr/local/share/ca-certificates/*.crt >/dev/null 2>&1; then
    cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/"
    chroot "$root" update-ca-certificates >/dev/null 2>&1
fi

# rustup, the links to it and its toolchains, but no program that `cargo install` put beside them; documentation is left behind.
mkdir -p "$root/$root_home/.cargo/bin" "$root/$root_home/.rustup"
for file in "${CARGO_HOME:-$HOME/.cargo}"/bin/*; do
    [ "$(readlink -f "$file")" != "$(readlink -f "${CARGO_HOME:-$HOME/.cargo}/bin/rustup")" ] || cp -a "$file" "$root/$root_home/.cargo/bin/"
done
for file in config.toml env; do
    [ ! -e "${CARGO_HOME:-$HOME/.cargo}/$file" ] || cp "${CARGO_HOME:-$HOME/.cargo}/$file" "$root/$root_home/.cargo/"
done
(cd "${RUSTUP_HOME:-$HOME/.rustup}" && tar -cf - --exclude='share/doc' settings.toml toolchains) |
    tar -xf - -C "$root/$root_home/.rustup"

git clone --quiet --no-local "$repo" "$root/$root_home/lto-prune"
echo "== $(git -C "$repo" log -1 --format='%h %s')"

status=0
printf '%s\n' "$list" >"$root/$root_home/commands"
while IFS= read -r command; do
    echo "== $command"
    # As a login on that machine would: root's own home and path, nothing of this environment.
    chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        PATH=/$root_home/.cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        /bin/bash -c "cd /$root_home/lto-prune && $command" </dev/null || status=$?
    echo "== status $status"
    [ "$status" -eq 0 ] || break
done <"$root/$root_home/commands"
exit "$status"

#!/bin/sh
# Install what `bench advisories` links and runs: Debian's static libraries and gdb. As root.
set -eu
apt-get update
apt-get install -y --no-install-recommends gcc binutils gdb lld-19 \
    zlib1g-dev libpng-dev libxml2-dev liblzma-dev libicu-dev libssl-dev libsqlite3-dev

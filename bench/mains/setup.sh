#!/bin/sh
# Install what `bench reach` links: Debian's static libraries. As root; Debian's csmith comes along for `bench soak`.
set -eu
apt-get update
apt-get install -y --no-install-recommends gcc g++ binutils mold lld-19 \
    zlib1g-dev libpng-dev liblua5.4-dev libsqlite3-dev libzstd-dev libbz2-dev csmith libcsmith-dev

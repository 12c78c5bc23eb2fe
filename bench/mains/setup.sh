#!/bin/sh
# Install the static libraries that the programs of bench/mains need. As root.
set -eu
apt-get update
apt-get install -y --no-install-recommends gcc g++ binutils mold lld-19 \
    zlib1g-dev libpng-dev liblua5.4-dev libsqlite3-dev libzstd-dev libbz2-dev

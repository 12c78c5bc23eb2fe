#!/bin/sh
# The program of tables: each operation, and some of them after each other.
set -eu
for i in $(seq 0 23); do "$1" "$i" 7 "$i"; done
"$1" $(seq 0 119)

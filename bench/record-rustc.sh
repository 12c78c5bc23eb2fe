#!/bin/sh
# Stands in for rustc: adds $BENCH_RUSTFLAGS to what compiles a crate, or only to what compiles $BENCH_PROGRAM itself
# if $BENCH_CRATES is `program`. Cargo's own ways add flags to build scripts and every crate alike.
set -eu
rustc=$1
shift
case " $* " in
*" --crate-name build_script"* | *" --crate-type proc-macro "* | *" --crate-name ___ "*) exec "$rustc" "$@" ;;
esac
case "${BENCH_CRATES-} $*" in
program*" --crate-name $BENCH_PROGRAM "*) ;;
program*) exec "$rustc" "$@" ;;
esac
case " $* " in
*" --crate-name "*) exec "$rustc" "$@" $BENCH_RUSTFLAGS ;;
esac
exec "$rustc" "$@"

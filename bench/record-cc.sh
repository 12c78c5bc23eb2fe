#!/bin/sh
# Stands in for the C compiler driver as rustc's linker: of the link whose output is named like $BENCH_PROGRAM it
# copies every input to $BENCH_OBJ and writes the line, then links as usual. Other links (build scripts) just happen.
set -eu
out=
previous=
for arg in "$@"; do
    [ "$previous" = -o ] && out=$arg
    [ "$arg" != -c ] || exec cc "$@"
    previous=$arg
done
case $(basename "$out") in
"$BENCH_PROGRAM" | "$BENCH_PROGRAM"-*)
    n=0
    skip=
    {
        echo cc
        for arg in "$@"; do
            if [ -n "$skip" ]; then
                skip=
                continue
            fi
            case $arg in
            # Folders of libraries are named by no -l of this line: rustc names rlibs by path.
            -o | -L) skip=1 ;;
            # The choice of the linker is the benchmark's.
            -fuse-ld=* | -B*) ;;
            # A link that explains itself is not pruned.
            -Wl,--verbose | -Wl,-Map* | -Wl,--print-map) ;;
            -L*) ;;
            *)
                if [ -f "$arg" ]; then
                    # A folder for each, so that equal names stay apart and every file keeps its own.
                    n=$((n + 1))
                    mkdir -p "$BENCH_OBJ/$n"
                    cp "$arg" "$BENCH_OBJ/$n/"
                    printf '%s\n' "$n/$(basename "$arg")"
                else
                    printf '%s\n' "$arg"
                fi
                ;;
            esac
        done
    } >"$BENCH_OBJ/link.args"
    ;;
esac
exec cc "$@"

case "$1" in --version|-v|-V) echo "LLD 19.1.7 (compatible with GNU linkers)"; exit 0;; esac
previous=
for word in "$@"; do
    [ "$previous" = -o ] && out=$word
    previous=$word
done
echo half > "$out"
: > started

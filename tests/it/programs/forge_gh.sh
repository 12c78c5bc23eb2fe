#!/bin/bash
set -euo pipefail
echo "$*" >>"$FORGE/calls"
case "$1 $2" in
    'run list') [ ! -d "$FORGE/artefact" ] || echo 41 ;;
    'run download') while [ "$1" != --dir ]; do shift; done; cp -r "$FORGE/artefact/." "$2" ;;
    'api user') echo robot ;;
    'api --paginate') for file in "$FORGE"/comments/*; do
        [ ! -e "$file" ] || ! grep -q '^robot: <!-- lto-prune size -->' "$file" || basename "$file"
    done ;;
    'api --method') number=1
        while [ -e "$FORGE/comments/$number" ] && [ "$3" = POST ]; do number=$((number + 1)); done
        [ "$3" = POST ] || number=${4##*/}
        case $4 in
            */pulls) [ "$COMMIT" != newest ] || echo 7 ;;
            *) for word; do case $word in body=*) printf 'robot: %s\n' "${word#body=}" >"$FORGE/comments/$number" ;; esac; done ;;
        esac ;;
esac

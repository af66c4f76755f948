#!/bin/sh
# Takes out of an environment what no process of ours needs: other people's tests, a command that comes
# with a library, and what a debugger would like to know of compiled modules. Libraries that wheels have
# changed (in *.libs) are left as they are.
set -eu
find "$1" -type d '(' -name test -o -name tests ')' -prune -exec rm -r {} +
find "$1" -type d -path '*/html_to_markdown/bin' -prune -exec rm -r {} +
find "$1" -path '*.libs' -prune -o '(' -name '*.cpython-*.so' -o -name '*.abi3.so' ')' \
    -exec strip --strip-unneeded {} +

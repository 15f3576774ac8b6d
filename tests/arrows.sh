#!/bin/sh
# The include arrows hold, and the checker finds each kind of arrow that points up.
set -u
failed=0 passed=0
check() { if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi; }
finds() # FILE LINE: a tree with that line in that file is refused
{
    tree=$(mktemp -d)
    mkdir -p "$tree/src/$(dirname "$1")" "$tree/backends" "$tree/kernels"
    echo "$2" >"$tree/src/$1"
    "$srcdir/tests/arrows" "$tree" >"$tree/out"
    result=$?
    [ $result = 1 ] && [ -s "$tree/out" ] || echo "not found: $2 in $1"
    rm -rf "$tree"
    [ $result = 1 ]
}
check "$srcdir/tests/arrows" "$srcdir"
check finds op/x.c '#include "plan/plan.h"'
check finds strategy/x.c '#include "backends/backend.h"'
check finds plan/x.c '#include <simgrid/actor.h>'
check finds cost/x.c '#ifdef HAVE_CUDA'
echo "arrows: $passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]

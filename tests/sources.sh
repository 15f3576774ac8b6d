#!/bin/sh
# Every source file is in the build.
if [ ! -d "$srcdir/.git" ]; then
    echo 'skipped sources: not a checkout'
    echo 'sources: 0 passed, 0 failed, 1 skipped'
    exit 0
fi
if "$srcdir/tests/sources" --check; then echo 'sources: 1 passed, 0 failed, 0 skipped'
else echo 'sources: 0 passed, 1 failed, 0 skipped'; exit 1; fi

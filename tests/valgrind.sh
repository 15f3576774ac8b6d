#!/bin/sh
# One CUnit program under valgrind: placement, with its many small arrays.
program=$builddir/test_placement
if ! command -v valgrind >/dev/null || [ ! -x "$program" ]; then
    echo 'skipped valgrind: valgrind or the test program is not here'
    echo 'valgrind: 0 passed, 0 failed, 1 skipped'
    exit 0
fi
if nm "$program" 2>/dev/null | grep -q __asan_init; then
    echo 'skipped valgrind: the program is built with AddressSanitizer'
    echo 'valgrind: 0 passed, 0 failed, 1 skipped'
    exit 0
fi
if valgrind -q --error-exitcode=9 --leak-check=full "$program"; then
    echo 'valgrind: 1 passed, 0 failed, 0 skipped'
else
    echo 'valgrind: 0 passed, 1 failed, 0 skipped'
    exit 1
fi

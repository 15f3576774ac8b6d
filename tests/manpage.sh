#!/bin/sh
# The man pages are well formed.
if ! command -v mandoc >/dev/null; then
    echo 'skipped manpage: mandoc is not installed'
    echo 'manpage: 0 passed, 0 failed, 1 skipped'
    exit 0
fi
passed=0 failed=0
for page in "$srcdir"/doc/*.[0-9]; do
    if mandoc -Tlint -W warning "$page"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
echo "manpage: $passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]

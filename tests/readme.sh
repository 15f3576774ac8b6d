#!/usr/bin/env bash
# The README's commands work: each line of its blocks marked "sh checked" is run, with `rehearse` from
# this build, in a folder with the experiments beside it.
set -u
passed=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$srcdir/experiments" "$srcdir/platforms" "$work"
cd "$work" || exit 1
PATH=$builddir:$PATH
while IFS= read -r line; do
    [ -n "$line" ] || continue
    if bash -c "$line" >out 2>&1; then passed=$((passed + 1))
    else echo "FAILED readme: $line"; cat out; failed=$((failed + 1)); fi
done < <(sed -n '/^```sh checked/,/^```$/p' "$srcdir/README.md" | grep -v '^```' | sed 's/ *#.*//')
echo "readme: $passed passed, $failed failed, 0 skipped"
[ $failed = 0 ] && [ $passed -gt 0 ]

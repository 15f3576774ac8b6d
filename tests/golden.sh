#!/usr/bin/env bash
# Commands and what they must print: tests/golden/cases/NAME.cmd holds a command line (%R is the
# program, %E the experiments, %S ../shared), NAME.out its output with the exit code on the last line.
# REHEARSE_GOLDEN_UPDATE=1 rewrites the outputs.
set -u
passed=0 failed=0 skipped=0
cd "$srcdir" || exit 1
shared=${REHEARSE_SHARED:-$srcdir/../shared}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for command in tests/golden/cases/*.cmd; do
    name=$(basename "$command" .cmd)
    expected=${command%.cmd}.out
    line=$(sed "s|%R|$builddir/rehearse|g; s|%E|experiments|g; s|%S|$shared|g; s|%T|$work|g" "$command")
    if grep -q '%S' "$command" && [ ! -d "$shared" ]; then
        echo "skipped golden/$name: ../shared is not here"
        skipped=$((skipped + 1))
        continue
    fi
    (eval "$line" 2>&1; echo "exit $?") | sed "s|$shared|SHARED|g; s|$work|WORK|g; s|SimGrid [0-9.]*|SimGrid VERSION|" >"$work/$name"
    if [ "${REHEARSE_GOLDEN_UPDATE:-0}" = 1 ]; then
        cp "$work/$name" "$expected"
    fi
    if diff -u "$expected" "$work/$name"; then passed=$((passed + 1))
    else echo "FAILED golden/$name"; failed=$((failed + 1)); fi
done
echo "golden: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]

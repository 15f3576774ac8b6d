# awk -v tolerance=T -f same.awk EXPECTED GOT: succeeds if the files differ only in the width of blanks
# and in numbers, each by at most T of the larger one.
function abs(x) { return x < 0 ? -x : x }

# Cuts a line into numbers[] and what stands between them, blanks made one.
function cut(line, numbers,    words) {
    words = ""
    numbers[0] = 0
    while (match(line, /[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?/)) {
        words = words substr(line, 1, RSTART - 1) "#"
        numbers[++numbers[0]] = substr(line, RSTART, RLENGTH) + 0
        line = substr(line, RSTART + RLENGTH)
    }
    words = words line
    gsub(/[ \t]+/, " ", words)
    return words
}

function differ(expected, got,    a, b, i, larger) {
    if (expected == got)
        return 0
    if (cut(expected, a) != cut(got, b))
        return 1
    for (i = 1; i <= a[0]; i++) {
        larger = abs(a[i]) > abs(b[i]) ? abs(a[i]) : abs(b[i])
        if (abs(a[i] - b[i]) > tolerance * larger)
            return 1
    }
    return 0
}

FILENAME == ARGV[1] { lines[++expected_count] = $0; next }
{ if (++got_count > expected_count || differ(lines[got_count], $0)) bad = 1 }
END { exit bad || got_count != expected_count }

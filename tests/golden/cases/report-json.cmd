# The report for programs: every key. Values are held by other cases.
# tolerance 1e-6
rehearse run experiments/seeds/toy-ddp.json --numbers --json - |
    grep -v "\"version\"\|_version\|hash"

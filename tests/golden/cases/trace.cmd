# A timeline that a browser reads: complete events, named streams.
rehearse run experiments/seeds/toy-ddp.json --trace trace.json >report
grep -o "\"ph\":[^,]*" trace.json | tr -d "\t " | sort | uniq -c
rm trace.json report

# Tables, timelines and counts; a table goes out and comes back; what is wrong is one line.
rehearse schedule
rehearse schedule zb_h1
rehearse schedule interleaved_1f1b --ranks 2 --microbatches 4 --times 1,1.5,0.5
rehearse schedule 1f1b --ranks 2 --microbatches 2 --csv | tee table.csv
rehearse schedule --file table.csv --first-stage-whole
rehearse schedule 1f1b --ranks 4 --microbatches 3 2>&1
rehearse schedule dualpipe 2>&1
rehearse schedule gpipe --times 1,2 2>&1
printf '0F0,0B0\n0F1,0B1\n' >bad.csv
rehearse schedule --file bad.csv 2>&1

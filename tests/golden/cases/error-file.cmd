rehearse run nothing.json 2>&1

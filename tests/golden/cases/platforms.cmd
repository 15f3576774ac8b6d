# All that is there, and nothing wrong with it.
rehearse platform show
rehearse platform check $(rehearse platform show | sed -n "s/^  //p")

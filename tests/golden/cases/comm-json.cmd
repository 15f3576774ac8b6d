rehearse comm scatter --devices 0,1,2 --shape 2x3 --json -

# The seed article's four calls, and what else a call can be asked for.
rehearse comm broadcast --devices 0,1,2 --shape 3
rehearse comm reduce_add --devices 0,1,2 --shape 3
rehearse comm scatter --devices 0,1,2 --shape 2x3
rehearse comm gather --devices 0,1,2 --shape 3
echo; echo 'dim, sizes, source, destination'
rehearse comm scatter --devices 0,1,2 --shape 2x3 --dim -1
rehearse comm scatter --devices 0,1 --shape 6 --sizes 2,4 --source host --backend reference
rehearse comm gather --devices 0,1,2 --shape 1x3 --destination host
rehearse comm gather --devices 0,1 --shape 2x1 --shape 2x2 --dim 1 --destination 2 --dtype int64
rehearse comm reduce_add --devices 0,1,0 --shape 2 --values 0.5,-1,2,3,10,20
rehearse comm to --shape scalar --values 7 --source 0 --destination 3 --cluster hgx-h100
echo; echo 'given tensors'
rehearse comm broadcast --devices 0,1 --shape 2 --out 2 --out 2
rehearse comm scatter --devices 1,2 --shape 4 --out 1 --out 3 --source 0
rehearse comm gather --devices 0,1 --shape 2 --out 4 --destination 1
echo; echo 'many tensors at once'
rehearse comm broadcast_coalesced --devices 0,1 --shape 2 --shape 1 --shape 1x3
rehearse comm reduce_add_coalesced --devices 0,1 --shape 2 --shape 1 --values 1,2,3,10,20,30
rehearse comm broadcast --devices 0,1,2,3 --shape 1000

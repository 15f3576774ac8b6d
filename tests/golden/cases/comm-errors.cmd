# Every refusal names the call's part and both numbers.
exec 2>&1
rehearse comm
rehearse comm scater --devices 0 --shape 3
rehearse comm broadcast --shape 3
rehearse comm broadcast --devices 0
rehearse comm broadcast --devices 0,-1 --shape 3
rehearse comm broadcast --devices 0,8 --shape 3
rehearse comm broadcast --devices 0,one --shape 3
rehearse comm broadcast --devices 0,1 --shape 3x
rehearse comm broadcast --devices 0,1 --shape 3 --values 1,2
rehearse comm broadcast --devices 0,1 --shape 3 --dim 0
rehearse comm broadcast --devices 0,1 --shape 3 --out 3
rehearse comm broadcast --devices 0,1 --shape 3 --out 3 --out 1x3
rehearse comm broadcast_coalesced --devices 0,1 --shape 3 --source 1
rehearse comm reduce_add --devices 1,2 --shape 3 --destination 0
rehearse comm reduce_add --devices 1,2 --shape 3 --shape 2
rehearse comm scatter --devices 0,1 --shape 6 --sizes 2,3
rehearse comm scatter --devices 0,1 --shape 6 --sizes 1,2,3
rehearse comm scatter --devices 0,1 --shape 6 --sizes -1,7
rehearse comm scatter --devices 0,1 --shape 2x3 --dim 2
rehearse comm scatter --devices 0,1 --shape scalar
rehearse comm scatter --devices 0,1 --shape 6 --out 2 --out 3
rehearse comm scatter --devices 0,1 --shape 6 --sizes 2,4 --out 2 --out 4
rehearse comm gather --devices 0,1 --shape 2x5 --shape 2x4
rehearse comm gather --devices 0,1 --shape 2x5 --shape 1x2x5
rehearse comm gather --devices 0,1 --shape 3 --out 5
rehearse comm to --shape 3
rehearse comm to --shape 3 --destination 9

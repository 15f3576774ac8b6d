# What launch refuses, and what is no rank.
exec 2>&1
rehearse help launch
for arguments in '-n 0 -- help' '-n 2 --timeout 0 -- help' '-n two -- help' '-n 2' '-n 2 --gpu -- help'; do
    rehearse launch $arguments
    echo "exit $?"
done
run='rehearse run experiments/seeds/toy-ddp.json --backend reference --numbers'
REHEARSE_RANK=4 REHEARSE_RANKS=4 $run
echo "exit $?"
REHEARSE_RANK=1 $run
echo "exit $?"
REHEARSE_RANK=x REHEARSE_RANKS=2 $run
echo "exit $?"
SLURM_PROCID=0 SLURM_NTASKS=4 $run | grep -c loss
REHEARSE_BOARD=/nonexistent/board $run

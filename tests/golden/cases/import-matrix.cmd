# A recorded machine of 8 V100; the platform that the main job uses has the same links.
rehearse platform import ../shared/reference/nvidia-smi-topo/dgx1v_nic_pytorch_ddp.txt \
    --gpu v100-sxm2-32gb --name imported --json imported.json &&
    rehearse platform show imported.json && rm imported.json

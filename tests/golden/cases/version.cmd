rehearse --version | grep -v '^  cuda '

rehearse --version

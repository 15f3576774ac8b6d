rehearse --version | grep -v '^  cuda ' | sed 's/^built with .*/built with …/'

rehearse help && rehearse help run

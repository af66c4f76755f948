"""What the cluster knows of its proxies: the pools in force (``pools``)."""

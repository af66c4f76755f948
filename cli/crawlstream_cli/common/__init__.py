"""Code shared by several commands: requests to the cluster, output, warnings."""

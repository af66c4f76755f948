"""REST service: the cluster over HTTP."""

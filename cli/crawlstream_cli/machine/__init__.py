"""Verbs that start, show and stop the cluster of this machine."""

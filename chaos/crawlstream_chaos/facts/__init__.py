"""Observations of a cluster under faults."""

"""Duties for a frontier of several partitions, besides the others: see docs/partitions.md."""

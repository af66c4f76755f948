"""Calls to one of several partitions, by its ``Scripts``; see docs/partitions.md.

``coordinator`` is the registry of the crawls that a partition coordinates: which runs are open.
``partition_intake`` has a partition take its seeds and apply the links that others sent it.
``contexts`` labels a partition's contexts with their runs, and looks at them.
"""

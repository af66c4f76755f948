"""Calls to one of several partitions, by its ``Scripts``; see docs/partitions.md.

``home`` is the registry of the crawls whose home it is: which runs are open. ``reading`` has a
partition take its seeds and apply the links that others sent it. ``contexts`` labels a partition's
contexts with their runs, and looks at them.
"""

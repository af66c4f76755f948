"""One of several partitions, by its ``Scripts``: what it is told and asked; see docs/partitions.md.

``home`` is the registry of the crawls whose home it is: which runs are open. ``reading`` has a
partition take its seeds and apply the links that others sent it. ``contexts`` tells a partition
for which runs it works, and looks at it.
"""

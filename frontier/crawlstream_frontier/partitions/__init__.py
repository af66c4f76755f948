"""A frontier of several partitions: what each is told and asked; see docs/partitions.md.

Each class is bound to one partition, by its ``Scripts``. ``home`` is the registry of the crawls
whose home it is: which runs are open. ``reading`` has a partition take its seeds and apply the
links that others sent it. ``contexts`` tells a partition for which runs it works, and looks at it.
``confirm`` goes from one to the other, ``labelling`` beside other work.

``frontiers`` has all of them, and finds the one that has a domain or a crawl.
"""

"""A frontier of several partitions, and the calls between them; see docs/partitions.md.

``confirm`` carries labels between partitions and coordinators, ``labelling`` does so in the
background. ``frontiers`` has all partitions, and finds the one of a domain or a crawl.
"""

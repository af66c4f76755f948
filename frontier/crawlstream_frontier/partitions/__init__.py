"""A frontier of several partitions: what goes from one to another; see docs/partitions.md.

``confirm`` goes from one to the other, ``labelling`` beside other work.
``frontiers`` has all of them, and finds the one that has a domain or a crawl.
"""

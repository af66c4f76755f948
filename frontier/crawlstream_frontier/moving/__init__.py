"""Moves a frontier into a new one with another number of partitions; ADR 120.

The old frontier stops its work (`withdrawal`), and is frozen when nothing in it is in flight.
Its data is read in bounded parts (`unloading`), converted to a form without partitions
(`moved_crawl`, `throttled`), and written to its new partition (`filling`); `move` runs all steps.
"""

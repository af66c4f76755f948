"""Moves a frontier into one of another number of partitions; ADR 120.

The old frontier stops its work (`withdrawal`), and is frozen when nothing of it is in flight.
Its data is read in bounded parts (`unloading`), brought into a form without partitions
(`crawls`, `throttled`), and written to its new partition (`filling`); `move` runs all steps.
"""

"""Moves a frontier into one of another number of partitions; ADR 120.

The old frontier gives up its work (`withdrawal`), and is frozen when nothing of it is under way.
What it holds is read in bounded parts (`unloading`), brought into a form that knows no partitions
(`crawls`, `throttled`), and written where it belongs (`filling`); `move` is the whole of it.
"""

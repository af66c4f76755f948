"""Bounded counters: what happened in the last quarter hour, day, week."""

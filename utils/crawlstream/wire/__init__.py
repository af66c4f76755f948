"""Bytes to values and back: the only place of the project that speaks JSON."""

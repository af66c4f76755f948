"""Frozen values that every layer speaks: no input, no output, no clients."""

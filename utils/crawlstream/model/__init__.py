"""Frozen values that all layers use: no input, no output, no clients."""

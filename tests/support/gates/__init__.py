"""Limits that domains have in common, in the plain model of the frontier."""

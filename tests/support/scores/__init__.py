"""Promotion by in-links in the plain model of the frontier."""

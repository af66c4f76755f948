"""Specification of pipelines in their file: read once, checked as a whole, frozen values."""

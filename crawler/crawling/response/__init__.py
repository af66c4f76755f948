"""Judges responses: a page for the spider, another attempt, a redirect or a failure."""

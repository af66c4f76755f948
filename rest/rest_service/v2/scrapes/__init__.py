"""Scrapes that are more than a call for a page: of recent pages, as streams, in batches."""

"""Scrapes: requests of clients for one page at once, and the share of a site that they may use."""

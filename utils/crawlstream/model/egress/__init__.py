"""Egress of requests: proxies and their pools (``pools``)."""

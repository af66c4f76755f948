"""The ways by which pages leave: proxies and their pools (``pools``)."""

"""``crawlstream proxies``: commands, options of a pool (``policy``), what is shown (``tables``)."""

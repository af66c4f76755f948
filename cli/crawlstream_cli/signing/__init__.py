"""``crawlstream signing``: commands, and the checks of a published directory (``checks``)."""

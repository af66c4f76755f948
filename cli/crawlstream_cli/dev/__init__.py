"""Commands of those who develop crawlstream: they need the source checkout."""

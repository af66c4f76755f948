"""A model of the waste guard, and a crawl of generated sites."""

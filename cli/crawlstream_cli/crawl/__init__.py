"""``crawlstream crawl``: what a person types first."""

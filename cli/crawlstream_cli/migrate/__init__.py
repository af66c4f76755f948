"""``crawlstream migrate``: what becomes of a Scrapy Cluster project, told from its files alone."""

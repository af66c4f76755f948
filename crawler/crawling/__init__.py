"""Crawler: leased requests through Scrapy, results to Kafka."""

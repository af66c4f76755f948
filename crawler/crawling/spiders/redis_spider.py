"""Where spiders written for the predecessor find their base."""

from crawling.spiders.base import RedisSpider

__all__ = ["RedisSpider"]

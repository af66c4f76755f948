"""Where spiders written for the predecessor find their base."""

from __future__ import annotations

from crawling.spiders.base import RedisSpider

__all__ = ["RedisSpider"]

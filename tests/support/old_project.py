"""A project for Scrapy Cluster as users may have one, written for these tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from support.documented import DOCS

CRAWLER_SETTINGS = """\
import os
raise SystemExit("a check must not run this")
BOT_NAME = 'shopcrawl'
SPIDER_MODULES = ['crawling.spiders', 'shopcrawl.spiders']
REDIS_HOST = os.getenv('REDIS_HOST', 'redis.internal')
REDIS_PORT = '6379'
REDIS_PASSWORD = 'geheim'
QUEUE_HITS = 30
SCHEDULER_QUEUE_REFRESH = 10
SCHEUDLER_ITEM_RETRIES = 3
SCHEDULER_TYPE_ENABLED = True
SC_LOG_LEVEL = 'DEBUG'
KAFKA_PRODUCER_BUFFER_BYTES = 4 * 1024 * 1024
DOWNLOAD_DELAY = 2.5
QUEUE_WINDOW = 30
SHOP_CURRENCY = 'EUR'
ITEM_PIPELINES = {
    'crawling.pipelines.KafkaPipeline': 100,
    'shopcrawl.pipelines.Warehouse': 50,
    'crawling.shop_pipeline.PricePipeline': 60,
}
if os.environ.get('STAGING'):
    KAFKA_TOPIC_PREFIX = 'staging'
"""

CRAWLER_LOCAL_SETTINGS = """\
QUEUE_WINDOW = 90
SCHEDULER_IP_ENABLED = False
ITEM_PIPELINES['crawling.shop_pipeline.VatPipeline'] = 70
DOWNLOADER_MIDDLEWARES.update({'crawling.proxy.RandomProxy': 410})
"""

STOCK_PIPELINES = """\
from scutils.log_factory import LogFactory


class KafkaPipeline(object):
    @classmethod
    def from_settings(cls, settings):
        return cls()
"""

ITEMS = """\
from scrapy import Field, Item


class RawResponseItem(Item):
    url = Field()


class PriceItem(Item):
    price = Field()
"""

SHOP_PIPELINE = """\
from crawling.items import PriceItem


class VatPipeline(object):
    @classmethod
    def from_settings(cls, settings):
        return cls()

    def process_item(self, item, spider):
        spider._logger.info('vat')

    def again(self, request, response):
        request.meta['curdepth'] = response.meta['curdepth']
        request.meta['priority'] = 90
"""

MONITOR_SETTINGS = """\
REDIS_HOST = 'other.internal'
KAFKA_HOSTS = ['k1:9092', 'k2:9092']
KAFKA_GROUP = 'shop-group'
KAFKA_CONSUMER_TIMEOUT = 50
PLUGINS = {
    'plugins.scraper_handler.ScraperHandler': 100,
    'plugins.stats_handler.StatsHandler': None,
    'plugins.price_handler.PriceHandler': 150,
}
PRICE_LIMIT = 10
"""

HANDLER = """\
from plugins.base_handler import BaseHandler


class PriceHandler(BaseHandler):
    schema = 'price_schema.json'

    def handle(self, dict):
        self.redis_conn.set('price:{}'.format(dict['sku']), dict['price'])
"""

MONITOR = """\
from .kafka_base_monitor import KafkaBaseMonitor


class PriceMonitor(KafkaBaseMonitor):
    regex = 'price:*'

    def handle(self, key, value):
        self._send_to_kafka({'appid': 'shop', 'price': value})
"""

REPORT = """\
import redis

found = redis.Redis()
for key in found.scan_iter('link:*:queue'):
    print(key, found.zcard(key))
for key in found.keys('stats:crawler:*:200:900'):
    print(key)
"""

SUPERVISOR = """\
[program:crawler]
command=scrapy runspider crawling/spiders/shop_spider.py
[program:km]
; command=python migrate.py
command=python kafka_monitor.py run
environment=KAFKA_GROUP="shop-group",STATS_CYCLE="5"
"""

COMPOSE = """\
services:
  crawler:
    image: istresearch/scrapy-cluster:crawler-dev
    environment:
      - REDIS_HOST=redis
      - SCHEDULER_PERSIST=True
"""

SCHEMA = """\
{
  "type": "object",
  "properties": {
    "appid": {"type": "string"},
    "url": {"type": "string"},
    "tenant": {"type": "string"}
  }
}
"""

FILES: Mapping[str, str] = {
    "crawler/crawling/settings.py": CRAWLER_SETTINGS,
    "crawler/crawling/localsettings.py": CRAWLER_LOCAL_SETTINGS,
    "crawler/crawling/pipelines.py": STOCK_PIPELINES,
    "crawler/crawling/items.py": ITEMS,
    "crawler/crawling/shop_pipeline.py": SHOP_PIPELINE,
    "crawler/crawling/redis_retry_middleware.py": "print 'of the predecessor, in Python 2'\n",
    "crawler/requirements.txt": "scutils==1.2.0\nprice-parser==0.3\n",
    "kafka-monitor/localsettings.py": MONITOR_SETTINGS,
    "kafka-monitor/plugins/price_handler.py": HANDLER,
    "kafka-monitor/plugins/scraper_schema.json": SCHEMA,
    "kafka-monitor/old_report.py": "print 'sold'\n",
    "redis-monitor/plugins/price_monitor.py": MONITOR,
    "ops/report.py": REPORT,
    "supervisord.conf": SUPERVISOR,
    "docker-compose.yml": COMPOSE,
    ".git/settings.py": "REDIS_HOST = 'never'\n",
}


def migrated_spiders() -> tuple[str, str]:
    """The spider of ``docs/migrating.md``: as it was, and as it is here."""
    page = (DOCS / "migrating.md").read_text(encoding="utf-8")
    before, after = re.findall(r"```py(?:thon)?\n(.*?)```", page, re.DOTALL)
    return before, after


def write_old_project(folder: Path) -> Path:
    """Write the project into a folder; where it is."""
    spider, _ = migrated_spiders()
    for name, text in {**FILES, "crawler/crawling/spiders/shop_spider.py": spider}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder

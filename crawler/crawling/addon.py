"""The add-on by which a user's own Scrapy project joins the cluster.

The project needs one line in its settings: ``ADDONS = {"crawling.addon.ClusterAddon": 0}``. Its
middlewares, pipelines and extensions stay. Crawlstream's settings decide which site gets requests,
when and how often; they override the project's and a spider's, because the frontier has already
granted each request.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from crawlstream.boot import log
from crawlstream.errors import ConfigError

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

__all__ = ["ClusterAddon"]

_ABOVE_SPIDERS = 35
"""Priority of a setting between a spider's own (30) and the command line (40)."""

_COMPONENTS = ("DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "ITEM_PIPELINES", "EXTENSIONS")
_THE_PROJECTS_OWN = frozenset({"ADDONS", "BOT_NAME", "SPIDER_MODULES"})
_IF_THE_PROJECT_SAYS_NOTHING = frozenset({"CONCURRENT_ITEMS", "DOWNLOAD_TIMEOUT", "USER_AGENT"})


class ClusterAddon:
    """Makes ``scrapy crawl NAME`` a worker of the cluster that the environment names."""

    def __init__(self, name: str) -> None:
        self._name = name

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ClusterAddon:
        """Create the add-on for Scrapy."""
        return cls(crawler.spidercls.name)

    @classmethod
    def update_pre_crawler_settings(cls, settings: BaseSettings) -> None:
        """Set the settings that a process needs before it has a crawler, such as the event loop."""
        try:
            ours = _ours()
        except ConfigError as error:
            sys.stderr.write(f"crawler: {error}\n")
            raise SystemExit(2) from error
        for name, value in ours.items():
            if name in _IF_THE_PROJECT_SAYS_NOTHING:
                settings.set(name, value, "addon")
            elif name not in _COMPONENTS and name not in _THE_PROJECTS_OWN:
                settings.set(name, value, _ABOVE_SPIDERS)

    def update_settings(self, settings: BaseSettings) -> None:
        """Add crawlstream's components to the project's, and disable conflicting ones of Scrapy."""
        log.configure(settings["CRAWLSTREAM"], f"crawler-{self._name}")
        logging.getLogger("scrapy").setLevel(logging.WARNING)
        add_components(settings)


def add_components(settings: BaseSettings) -> None:
    """Add crawlstream's middlewares, pipelines and extensions to the project's."""
    ours = _ours()
    for name in _COMPONENTS:
        for path, order in ours[name].items():
            settings.set_in_component_priority_dict(name, load_object(path), order)


def _ours() -> Mapping[str, Any]:
    from crawling import settings  # noqa: PLC0415  reads the environment

    return {name: value for name, value in vars(settings).items() if name.isupper()}

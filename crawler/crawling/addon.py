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
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

import structlog
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from crawlstream.boot import log
from crawlstream.errors import ConfigError

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler

__all__ = ["ClusterAddon"]

_ABOVE_SPIDERS = 35
"""Priority of a setting between a spider's own (30) and the command line (40)."""

_COMPONENTS = ("DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "ITEM_PIPELINES", "EXTENSIONS")
_THE_PROJECTS_OWN = frozenset({"ADDONS", "BOT_NAME", "SPIDER_MODULES"})
_DELAY = "CRAWLSTREAM_IGNORED_DELAY"
"""The project's DOWNLOAD_DELAY, in seconds."""
_IF_THE_PROJECT_SAYS_NOTHING = frozenset({"CONCURRENT_ITEMS", "DOWNLOAD_TIMEOUT", "USER_AGENT"})


class ClusterAddon:
    """Makes ``scrapy crawl NAME`` a worker of the cluster that the environment names."""

    _spider: type[Spider] | None = None

    def __init__(self, name: str) -> None:
        self._name = name

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ClusterAddon:
        """Create the add-on for Scrapy."""
        addon = cls(crawler.spidercls.name)
        addon._spider = crawler.spidercls
        return addon

    @classmethod
    def update_pre_crawler_settings(cls, settings: BaseSettings) -> None:
        """Set the settings that a process needs before it has a crawler, such as the event loop."""
        try:
            ours = _ours()
        except ConfigError as error:
            sys.stderr.write(f"crawler: {error}\n")
            raise SystemExit(2) from error
        if delay_s := settings.getfloat("DOWNLOAD_DELAY"):
            settings.set(_DELAY, delay_s, "addon")
        for name, value in ours.items():
            if name in _IF_THE_PROJECT_SAYS_NOTHING:
                settings.set(name, value, "addon")
            elif name not in _COMPONENTS and name not in _THE_PROJECTS_OWN:
                settings.set(name, value, _ABOVE_SPIDERS)

    def update_settings(self, settings: BaseSettings) -> None:
        """Add crawlstream's components to the project's, and disable conflicting ones of Scrapy."""
        log.configure(settings["CRAWLSTREAM"], f"crawler-{self._name}")
        logging.getLogger("scrapy").setLevel(logging.WARNING)
        if delay_s := self._ignored_delay_s(settings):
            structlog.get_logger().warning(
                "start",
                outcome="delay_ignored",
                delay_s=delay_s,
                remedy=f"crawlstream throttle set DOMAIN {_rate_of(delay_s)}",
            )
        add_components(settings)

    def _ignored_delay_s(self, settings: BaseSettings) -> float:
        """Return the delay of the project or spider, which the frontier does not know."""
        of_spider = (getattr(self._spider, "custom_settings", None) or {}).get("DOWNLOAD_DELAY")
        told = (settings.get(_DELAY), of_spider, getattr(self._spider, "download_delay", None))
        return max(float(each or 0) for each in told)


def _rate_of(delay_s: float) -> str:
    """Return the options of a rule that is as slow as a delay."""
    if delay_s >= 1:
        return f"--hits 1 --window {delay_s:g}"
    return f"--hits {int(1 / delay_s)} --window 1"


def add_components(settings: BaseSettings) -> None:
    """Add crawlstream's middlewares, pipelines and extensions to the project's."""
    ours = _ours()
    for name in _COMPONENTS:
        _remove(settings, name, {path for path, order in ours[name].items() if order is None})
        for path, order in ours[name].items():
            if order is not None:
                settings.set_in_component_priority_dict(name, load_object(path), order)


def _remove(settings: BaseSettings, name: str, paths: AbstractSet[str]) -> None:
    """Remove components from Scrapy's and from the project's.

    Scrapy imports those that are disabled, too: they would be a fifth of a crawler's start.
    """
    base = settings[f"{name}_BASE"].items()
    kept = {path: order for path, order in base if path not in paths}
    settings.set(f"{name}_BASE", kept, _ABOVE_SPIDERS)
    given = (settings[name] or {}).items()
    kept = {each: order for each, order in given if each not in paths and _path(each) not in paths}
    settings.set(name, kept, settings.getpriority(name) or 0)


def _path(component: Any) -> str:
    return global_object_name(load_object(component))


def _ours() -> Mapping[str, Any]:
    from crawling import settings  # noqa: PLC0415  reads the environment

    return {name: value for name, value in vars(settings).items() if name.isupper()}

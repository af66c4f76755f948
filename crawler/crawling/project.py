"""The search for a spider, and the settings that it runs with.

The crawler looks first among crawlstream's spiders and those of CRAWLSTREAM_SPIDER_MODULES, then in
the Scrapy project around the current directory (``scrapy.cfg``) or of SCRAPY_SETTINGS_MODULE. A
project keeps its pipelines and middlewares; the cluster's add-on is added if its settings do not
name it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from traceback import extract_tb

from scrapy import Spider
from scrapy.settings import Settings
from scrapy.spiderloader import get_spider_loader
from scrapy.utils.conf import closest_scrapy_cfg
from scrapy.utils.misc import load_object
from scrapy.utils.project import get_project_settings

from crawling.spiders.base import ClusterSpider
from crawlstream.errors import ConfigError

_OURS = "crawling.settings"
_ADDON = "crawling.addon.ClusterAddon"
_PARTS = ("DOWNLOADER_MIDDLEWARES", "EXTENSIONS", "ITEM_PIPELINES", "SPIDER_MIDDLEWARES")


def settings_of(name: str) -> Settings:
    """Return the settings of a process that runs the spider; ConfigError if none could."""
    ours = Settings()
    ours.setmodule(_OURS, priority="project")
    spiders = _spiders(ours)
    if name in spiders:
        _check(spiders[name])
        return ours
    if theirs := _project():
        found = _spiders(theirs)
        if name in found:
            _check(found[name])
            _check_parts(theirs)
            return theirs
        spiders = {**spiders, **found}
    known = sorted(each for each in spiders if issubclass(spiders[each], ClusterSpider))
    near = get_close_matches(name, known, n=1)
    meant = f"; did you mean {near[0]}?" if near else "."
    raise ConfigError(
        f"unknown spider {name!r}; known spiders: {', '.join(known)}{meant} Others are looked"
        " for in CRAWLSTREAM_SPIDER_MODULES and in the Scrapy project around the current directory"
    )


def _project() -> Settings | None:
    """Return the settings of the user's Scrapy project with the add-on; None if there is none."""
    if not (os.environ.get("SCRAPY_SETTINGS_MODULE") or closest_scrapy_cfg()):
        return None
    try:
        settings = get_project_settings()
    except Exception as error:
        raise ConfigError(f"the settings of the Scrapy project: {_in_short(error)}") from error
    addons = settings.getdict("ADDONS")
    if not any(_ADDON in (each, _path(each)) for each in addons):
        settings.set("ADDONS", {**addons, _ADDON: 0}, priority="project")
    return settings


def _path(named: object) -> str:
    """Return the import path of a class: settings may have the class in place of its path."""
    return f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', '')}"


def _spiders(settings: Settings) -> Mapping[str, type[Spider]]:
    """Return names and classes of the spiders; ConfigError if a module cannot be read."""
    try:
        loader = get_spider_loader(settings)
    except Exception as error:
        raise ConfigError(_unreadable(settings.getlist("SPIDER_MODULES"), error)) from error
    return {name: loader.load(name) for name in loader.list()}


def _unreadable(modules: list[str], error: Exception) -> str:
    absent = isinstance(error, ModuleNotFoundError) and error.name
    if absent and any(f"{each}.".startswith(f"{absent}.") for each in modules):
        named = os.environ.get("CRAWLSTREAM_SPIDER_MODULES", "").split(",")
        is_ours = any(f"{each}.".startswith(f"{absent}.") for each in named)
        setting = "CRAWLSTREAM_SPIDER_MODULES" if is_ours else "SPIDER_MODULES"
        return f"{setting}: {error}; is its directory on PYTHONPATH?"
    return f"the spiders in {', '.join(modules)} cannot be read: {_in_short(error)}"


def _in_short(error: Exception) -> str:
    """Return an error of the user's own code with its file and line, in one line."""
    said = " ".join(f"{type(error).__name__}: {error}".split())
    frames = extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) or not frames:
        return said
    return f"{said} ({frames[-1].filename}, line {frames[-1].lineno})"


def _check(spider: type[Spider]) -> None:
    """Raise ConfigError for a spider that would crawl without the frontier."""
    if not issubclass(spider, ClusterSpider):
        raise ConfigError(
            f"{spider.__name__} is not a cluster spider: derive it from"
            " crawling.ClusterSpider, listed before other base classes"
        )


def _check_parts(settings: Settings) -> None:
    """Raise ConfigError for a pipeline or middleware that Scrapy cannot load or set up."""
    for name in _PARTS:
        for named, rank in settings.getdict(name).items():
            if rank is None:
                continue
            try:
                part = load_object(named)
            except Exception as error:
                raise ConfigError(f"{name}: {_in_short(error)}") from error
            if hasattr(part, "from_settings") and not hasattr(part, "from_crawler"):
                raise ConfigError(
                    f"{name}: Scrapy no longer calls {part.__qualname__}.from_settings: write"
                    " from_crawler(cls, crawler), which reads crawler.settings"
                )

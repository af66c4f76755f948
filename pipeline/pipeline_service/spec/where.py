"""Which pages a pipeline wants; each that it does not is counted, by the key that says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import re2

from crawlstream.errors import ConfigError
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.delivered import Delivered

_STATUSES = 600
_OF_A_CRAWL = ("appid", "crawlid", "spiderid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Conditions for a page; None: any value."""

    appid: frozenset[str] | None = None
    crawlid: frozenset[str] | None = None
    spiderid: frozenset[str] | None = None
    status: frozenset[int] | None = None
    mime: frozenset[str] | None = None
    max_depth: int | None = None
    url: str | None = None
    """An expression of RE2 that is found in the URL."""

    @classmethod
    def read(cls, table: Mapping[str, Any], where: str) -> Where:
        """Read a table of TOML; ConfigError."""
        names = [each.name for each in fields(cls)]
        for key in table:
            if key not in names:
                raise ConfigError(f"{where}: unknown key {key!r}; known: {', '.join(names)}")
        return cls(**{key: _read(key, table[key], f"{where}.{key}") for key in table})

    def refuses(self, page: Delivered) -> str:
        """Return why a page is not wanted, as a code; empty: it is."""
        for name in _OF_A_CRAWL:
            if (wanted := getattr(self, name)) is not None and getattr(page, name) not in wanted:
                return f"where.{name}"
        if self.status is not None and page.status_code not in self.status:
            return "where.status"
        if self.mime is not None and page.mime not in self.mime:
            return "where.mime"
        if self.max_depth is not None and page.depth > self.max_depth:
            return "where.max_depth"
        if self.url is not None and not re2.search(self.url, page.url):
            return "where.url"
        return ""

    def is_about(self, crawl: CrawlKey) -> bool:
        """Return whether pages of a crawl may be wanted."""
        named = {"appid": crawl.appid, "crawlid": crawl.crawlid, "spiderid": crawl.spiderid}
        return all((w := getattr(self, name)) is None or named[name] in w for name in _OF_A_CRAWL)


def _read(key: str, value: Any, where: str) -> Any:
    if key == "max_depth":
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ConfigError(f"{where}: expected an integer from 0 on")
        return value
    if key == "url":
        return expression(value, where)
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise ConfigError(f'{where}: expected a list of texts, such as ["a", "b"]')
    if key == "status":
        return frozenset(code for each in value for code in _codes(each, where))
    return frozenset(each.lower() if key == "mime" else each for each in value)


def expression(value: Any, where: str) -> str:
    """Read an expression of RE2; ConfigError."""
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(value, options)
    except (re2.error, TypeError) as error:
        why = error.args[0] if error.args else error
        said = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
        raise ConfigError(f"{where}: not an expression of RE2: {said}") from error
    return str(value)


def _codes(text: str, where: str) -> range:
    """``404``, or all of ``2xx``."""
    if text.isascii() and text.isdigit() and 100 <= int(text) < _STATUSES:
        return range(int(text), int(text) + 1)
    if text in ("1xx", "2xx", "3xx", "4xx", "5xx"):
        return range(int(text[0]) * 100, int(text[0]) * 100 + 100)
    raise ConfigError(f'{where}: {text!r} is not a status: expected one such as "404" or "2xx"')

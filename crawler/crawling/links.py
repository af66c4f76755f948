"""The links of a page, and which of them a crawl follows.

What counts as a link, how it is resolved and canonicalized, and which duplicates are one, is as
Scrapy's LxmlLinkExtractor has it; ``tests/integration/test_crawler_links.py`` compares.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from urllib.parse import ParseResult, urlparse

import structlog
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import IGNORED_EXTENSIONS, LinkExtractor
from w3lib.url import canonicalize_url

from crawlstream.model.crawl import Profile

log = structlog.get_logger()


_extractor = LinkExtractor(unique=False, deny_extensions=())
"""Every link, unfiltered; a filter has to see the URL before it is canonicalized."""


class LinkRules:
    """What a crawl follows: the filters of its seed, in the order in which Scrapy asks them."""

    def __init__(
        self,
        domains: Sequence[str] | None,
        allow: Sequence[str] | None,
        deny: Sequence[str] | None,
        extensions: Sequence[str] | None,
    ) -> None:
        self._allow = [re.compile(each) for each in allow or ()]
        self._deny = [re.compile(each) for each in deny or ()]
        self._domains = tuple(_domain_rule(each) for each in domains or ())
        denied = IGNORED_EXTENSIONS if extensions is None else extensions
        self._extensions = tuple(f".{each}" for each in denied)

    def refuses(self, url: str) -> str | None:
        """Why the crawl does not follow a URL; None if it does."""
        if self._allow and not any(each.search(url) for each in self._allow):
            return "regex"
        if any(each.search(url) for each in self._deny):
            return "regex"
        parts = urlparse(url)
        if self._domains and not any(_is_within(parts, *each) for each in self._domains):
            return "domain"
        if parts.path.lower().endswith(self._extensions):
            return "extension"
        return None


def rules_of(profile: Profile) -> LinkRules:
    """The rules of a profile; compiled once for many pages."""
    return _rules(
        profile.allowed_domains, profile.allow_regex, profile.deny_regex, profile.deny_extensions
    )


@lru_cache(1024)
def _rules(*filters: tuple[str, ...] | None) -> LinkRules:
    return LinkRules(*filters)


def _domain_rule(text: str) -> tuple[str, int | None]:
    """``host`` or ``host:port``; a host without a port means any."""
    host, _, port = text.strip().lower().rpartition(":")
    if host and port.isdigit() and (":" not in host or host.endswith("]")):
        return host.strip("[]"), int(port)
    return text.strip().lower().strip("[]").removesuffix("."), None


def _is_within(parts: ParseResult, domain: str, port: int | None) -> bool:
    host = (parts.hostname or "").removesuffix(".")
    if host != domain and not host.endswith(f".{domain}"):
        return False
    return port is None or port == (parts.port or (443 if parts.scheme == "https" else 80))


def links_of(response: Response, profile: Profile) -> tuple[list[tuple[str, str]], Counter[str]]:
    """URL and text of the links that a crawl follows, and how many it does not, by reason.

    A page that is no HTML has none. Markup that cannot be read has none either: the page counts.
    """
    rules = rules_of(profile)
    found: dict[str, str] = {}
    refused: Counter[str] = Counter()
    for url, text in _extract(response):
        try:
            reason = rules.refuses(url)
            clean = canonicalize_url(url)
        except ValueError:
            reason = "url"
        if reason is None:
            found.setdefault(clean, text)
        else:
            refused[reason] += 1
    return list(found.items()), refused


def _extract(response: Response) -> Iterable[tuple[str, str]]:
    if not isinstance(response, HtmlResponse):
        return
    try:
        links = _extractor.extract_links(response)
    except Exception as error:  # noqa: BLE001  whatever the parser trips over, the page is kept
        log.warning("parse", outcome="no_links", url=response.url, error=str(error)[:200])
        return
    seen = set()
    for link in links:
        if link.url not in seen:
            seen.add(link.url)
            yield link.url, link.text

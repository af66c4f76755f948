"""The links of a page, and which of them a crawl follows.

What counts as a link, how it is resolved and canonicalized, and which duplicates are one, is as
Scrapy's LxmlLinkExtractor has it, which ``tests/unit/crawler/links/test_links.py`` compares with.
Most links on the web are plain: what the long way of resolving and quoting would give back
unchanged takes a short cut here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import lru_cache
from itertools import islice
from typing import Any
from urllib.parse import urljoin, urlparse

import structlog
from lxml import etree
from parsel.selector import create_root_node
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import IGNORED_EXTENSIONS
from scrapy.utils.response import get_base_url
from w3lib.html import strip_html5_whitespace
from w3lib.url import canonicalize_url, safe_url_string

from crawling.links.filters import Extensions, HostSet
from crawling.links.patterns import OutOfTime, Patience, Patterns
from crawling.links.texts import LinkTexts
from crawling.page.request import page_of
from crawlstream.model.crawl import Profile
from crawlstream.model.url import MAX_URL_LENGTH

_SCHEMES = ("http://", "https://", "file://", "ftp://")
"""What Scrapy lists; only the first two are followed."""

_ORIGIN = r"https?://[a-z0-9-]+(?:\.[a-z0-9-]+)*(?::[1-9][0-9]*)?"
_PATH = r"(?:/[A-Za-z0-9_~-][A-Za-z0-9_.~-]*)+/?"
_PLAIN_URL = re.compile(_ORIGIN + _PATH)
_PLAIN_PATH = re.compile(_PATH)
_PLAIN_ORIGIN = re.compile(_ORIGIN + r"(?=[/?#]|\Z)")

_HEAD = 4096
"""Scrapy looks for a base element in so many characters, with the comments taken out."""
_MAY_HAVE_BASE = re.compile(r"<base|<!--", re.IGNORECASE)

LONGEST_MARKUP = 1 << 20
"""Characters in which links are looked for. What is made of them takes up to 45 times their size:
sixteen million of elements would be 540 MB and seconds of CPU."""

_LONGEST_BODY = 4 * LONGEST_MARKUP
"""Bytes that so many characters take at most."""

_RULES_KEPT = 128
"""Crawls whose rules are kept; with expressions they may take 0.5 MB each."""

MOST_LINKS = 5_000
"""Different addresses that are looked at in one page."""
MOST_ANCHORS = 4 * MOST_LINKS
"""Elements that are looked at, repetitions included: far down a deep tree each one is dear."""
MOST_URL_CHARACTERS = 1 << 19
"""What they may be long together. A base makes each of them as long as it likes."""
_LONGEST_HREF = 16 * MAX_URL_LENGTH
"""Longer ones are not even resolved: no crawl could follow them."""
_LONG_HOST = re.compile(r"[^/?#]*//[^/?#]{512}")
"""No host, with a port and in whatever letters, is so long; to encode one that is takes long."""

_from_here: Any = etree.XPath(
    "count(descendant-or-self::a[@href]) + count(descendant-or-self::area[@href])"
    " + count(following::a[@href]) + count(following::area[@href])"
)

log = structlog.get_logger()


class LinkRules:
    """What a crawl follows: the filters of its seed, in the order in which Scrapy asks them."""

    def __init__(
        self,
        domains: Sequence[str] | None,
        allow: Sequence[str] | None,
        deny: Sequence[str] | None,
        extensions: Sequence[str] | None,
    ) -> None:
        self._allow = Patterns(allow or ())
        self._deny = Patterns(deny or ())
        self._patience = Patience()
        self._domains = HostSet(domains or ())
        self._extensions = Extensions(IGNORED_EXTENSIONS if extensions is None else extensions)

    def refusals(self, urls: Sequence[str]) -> Sequence[str | None]:
        """For each URL of a page why the expressions leave it out; None where they do not."""
        if not self._allow and not self._deny:
            return [None] * len(urls)
        verdicts: list[str | None] = []
        clock: AbstractContextManager[None] = nullcontext()
        if self._allow.backtrack_on(urls) or self._deny.backtrack_on(urls):
            clock = self._patience.limited()
        try:
            with clock:
                for url in urls:
                    verdicts.append(None if self._is_wanted(url) else "regex")  # noqa: PERF401  what is judged in time is kept
        except OutOfTime:
            log.warning("parse", outcome="regex_timeout", links=len(urls) - len(verdicts))
        return verdicts + ["regex_timeout"] * (len(urls) - len(verdicts))

    def _is_wanted(self, url: str) -> bool:
        if self._allow and not self._allow.found_in(url):
            return False
        return not (self._deny and self._deny.found_in(url))

    def refuses(self, url: str, *, is_plain: bool) -> str | None:
        """Why the other filters leave a URL out; None if they do not.

        A plain URL ends with its path.
        """
        if is_plain and not self._domains:
            return "extension" if self._extensions.end(url) else None
        parts = urlparse(url)
        if self._domains and not self._domains.covers(parts):
            return "domain"
        return "extension" if self._extensions.end(parts.path) else None


def rules_of(profile: Profile) -> LinkRules:
    """The rules of a profile; compiled once for many pages."""
    return _rules(
        profile.allowed_domains, profile.allow_regex, profile.deny_regex, profile.deny_extensions
    )


@lru_cache(_RULES_KEPT)
def _rules(*filters: tuple[str, ...] | None) -> LinkRules:
    return LinkRules(*filters)


def links_of(
    response: Response, profile: Profile | None = None
) -> tuple[list[tuple[str, str]], Counter[str]]:
    """URL and text of the links that a crawl follows, and how many it does not, by reason.

    The crawl is that of the page, unless another's ``profile`` is given.
    A page that is no HTML has none. Markup that cannot be read has none either: the page counts.
    """
    rules = rules_of(profile or page_of(response).hold.profile)
    found: dict[str, str] = {}
    refused: Counter[str] = Counter()
    links = list(_extract(response, refused))
    refusals = rules.refusals([url for url, _text, _is_plain in links])
    for (url, text, is_plain), refusal in zip(links, refusals, strict=True):
        try:
            reason = refusal or rules.refuses(url, is_plain=is_plain)
            clean = url if is_plain else canonicalize_url(url)
        except ValueError:
            reason = "url"
        if reason is None:
            found.setdefault(clean, text)
        else:
            refused[reason] += 1
    return list(found.items()), refused


def _extract(response: Response, refused: Counter[str]) -> Iterable[tuple[str, str, bool]]:
    """Each link once: its URL, its text, and whether the URL is plain."""
    if not isinstance(response, HtmlResponse):
        return
    seen = set()
    try:
        response = _beginning(response)
        markup = _markup(response)
        texts = LinkTexts(len(markup))
        # As ``response.selector`` parses, without what a selector takes besides.
        anchors = create_root_node(markup, etree.HTMLParser).iter("a", "area")
        for url, element, is_plain in _resolved(response, islice(anchors, MOST_ANCHORS)):
            if url not in seen:
                seen.add(url)
                yield url, texts.of(element), is_plain
        if (next_one := next(anchors, None)) is not None:
            left = int(_from_here(next_one))
            refused["too_many"] += left
            log.warning("parse", outcome="links_cut", url=response.url, links=left)
    except Exception as error:  # noqa: BLE001  whatever the parser trips over, the page is kept
        log.warning("parse", outcome="links_cut", url=response.url, error=str(error)[:200])


def _resolved(response: HtmlResponse, anchors: Iterator[Any]) -> Iterator[tuple[str, Any, bool]]:
    """Each absolute URL that an anchor or area points to, and the element; not without end."""
    base = _base_of(response)
    origin = _PLAIN_ORIGIN.match(base)
    hrefs: set[str] = set()
    room = MOST_URL_CHARACTERS
    for element in anchors:
        href = element.get("href")
        if href is None or href in hrefs:
            continue
        hrefs.add(href)
        href = strip_html5_whitespace(href)
        url: str | None = href
        is_plain = _PLAIN_URL.fullmatch(href) is not None
        if not is_plain and origin and _PLAIN_PATH.fullmatch(href):
            url, is_plain = origin[0] + href, True
        elif not is_plain:
            url = _resolve(href, base, response)
        if url is not None and (is_plain or url.startswith(_SCHEMES)):
            yield url, element, is_plain
            room -= len(url)
        if room < 0 or len(hrefs) == MOST_LINKS:
            return


def _beginning(response: HtmlResponse) -> HtmlResponse:
    """The response, without what is surely too much: as text it may take four times its bytes."""
    if len(response.body) <= _LONGEST_BODY:
        return response
    return response.replace(body=response.body[:_LONGEST_BODY])


def _markup(response: HtmlResponse) -> str:
    """The text of a page; of one that is too long, as many whole elements as may be."""
    text = response.text
    if len(text) <= LONGEST_MARKUP:
        return text
    log.warning("parse", outcome="links_cut", url=response.url, characters=len(text))
    return text[: text.rfind("<", 0, LONGEST_MARKUP)]


def _base_of(response: HtmlResponse) -> str:
    """What relative links are relative to; a base that is no URL counts as none."""
    if _MAY_HAVE_BASE.search(response.text[:_HEAD]) or not _PLAIN_URL.fullmatch(response.url):
        with suppress(ValueError):
            return get_base_url(response)
    return response.url


def _resolve(href: str, base: str, response: HtmlResponse) -> str | None:
    """The long way, as Scrapy goes it; None where it leads nowhere."""
    if len(href) > _LONGEST_HREF:
        return None
    try:
        joined = urljoin(base, href)
        if _LONG_HOST.match(joined):
            return None
        quoted = safe_url_string(joined, encoding=response.encoding)
        return urljoin(response.url, quoted)
    except ValueError:
        return None

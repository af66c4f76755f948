"""Rules of a robots.txt, and the cost of judging by them.

Most files cost nothing. But each agent of a group has all the rules of the group for itself, and a
URL may have to be looked through once for each rule with a wildcard. A file's
:attr:`RobotsRules.weight` says so beforehand.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from protego import Protego

from crawling.links.sitemap_files import MOST_NAMED
from crawling.page.rights import SiteSays
from crawling.robots.cache import KnownFiles
from crawling.robots.lines import LineReader, agent_for, kept_apart
from crawling.robots.words import LONGEST_PAUSE_MS, GroupWords, Words
from crawlstream.model.url import origin_of
from crawlstream_extract.sitemaps import named_in

LIGHT_CHARACTERS = 2048
"""Characters that are read at once, in 10 ms at worst; a longer text is read in a thread."""
_LIGHT_RULES = 1024
_RULE_CHARACTERS = 2
"""Characters of text that take as much memory as a rule."""
_NO_WORDS = Words()

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RobotsRules:
    """Rules of one file."""

    parsed: Protego
    weight: int
    """About how many rules it holds; one counts for each agent of its group."""
    size: int
    """Memory that it takes, in characters of an ordinary file."""
    words: Words
    fetched_at: float = 0
    """When the cluster has fetched it, by the monotonic clock of this process."""
    sitemaps: tuple[str, ...] = ()
    """Sitemaps that it names, as it writes them: ``MOST_NAMED`` and one more at most."""

    @property
    def is_light(self) -> bool:
        """Return whether a URL is judged within a few milliseconds at worst."""
        return self.weight <= _LIGHT_RULES

    def allow(self, url: str, agent: str) -> bool:
        """Return whether a client with this User-Agent may fetch a URL."""
        return self.parsed.can_fetch(kept_apart(url), agent_for(agent))

    def crawl_delay_ms(self, agent: str) -> int:
        """The pause between two requests that it asks an agent to keep; 0: it does not.

        The longer one of its Crawl-delay and its Request-rate.
        """
        delay_ms = 1000 * max(self.parsed.crawl_delay(agent_for(agent)) or 0, 0)
        return int(min(max(delay_ms, self.words_for(agent).pause_ms), LONGEST_PAUSE_MS))

    def says_of(self, url: str, agent: str) -> SiteSays | None:
        """Return its statements about uses of a page, for a client with this User-Agent."""
        statements = self.words.statements(agent_for(agent), url)
        if not statements:
            return None
        return SiteSays(statements, max(int(time.monotonic() - self.fetched_at), 0))

    def words_for(self, agent: str) -> GroupWords:
        """Return the other requests to a client with this User-Agent: its rates and hours."""
        return self.words.of(agent_for(agent))


def sitemaps_in(files: KnownFiles[RobotsRules], url: str) -> Sequence[str] | None:
    """Return the sitemaps that the file of a URL's origin names; None: it is not at hand."""
    origin = origin_of(url)
    if origin not in files:
        return None
    rules = files[origin]
    return rules.sitemaps if rules else ()


def rules_in(text: bytes, fetched_at: float = 0) -> RobotsRules | None:
    """Return what a file says; None where it says nothing, so that everything is allowed.

    One that has more rules than can be kept forbids everything, as one does that is too long.
    """
    reader = LineReader()
    kept = reader.read(text)
    if reader.is_too_heavy:
        log.warning("robots", outcome="too_many_rules", weight=reader.weight)
        reader = LineReader()
        kept = reader.read(b"User-agent: *\nDisallow: /")
    sitemaps = tuple(named_in(text)[: MOST_NAMED + 1])
    if not (kept or sitemaps) and reader.words.is_empty:
        return None
    try:
        parsed = Protego.parse(kept)
    except Exception as error:  # noqa: BLE001  whatever a hostile file does to the parser
        log.warning("robots", outcome="unreadable", error=str(error)[:200])
        return None
    size = max(len(kept), _RULE_CHARACTERS * reader.weight) + sum(map(len, sitemaps))
    words = _NO_WORDS if reader.words.is_empty else reader.words
    return RobotsRules(parsed, reader.weight, size, words, fetched_at, sitemaps)

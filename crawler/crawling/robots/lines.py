"""Reads agents, rules and delays of a robots.txt for its judge, in plain ASCII (RFC 9309).

Other records that mean something go to :mod:`crawling.robots.words`.

Protego decides what is allowed. Text that would mislead it is removed before: records of other
kinds, which must not end a group (section 2.2.4); rules before any group (2.2.1); characters that
would end a line. Octets outside UTF-8 are percent-encoded instead of dropped. Escapes of characters
that mean something else unescaped are escaped once more, in rules and URLs alike, because Protego
takes ``%3F`` for ``?`` (2.2.2). An agent is reduced to its product token and marked at its end, so
that Protego compares whole tokens.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from functools import lru_cache

from crawling.page.statements import CONTENT_USAGE
from crawling.robots.preferences import PREFERENCES
from crawling.robots.words import WORDS, Words

MOST_RULES = 1 << 16
"""Rules of one file; a group of one agent with that many is larger than 500 KiB. Reading them takes
a second, and keeping them 15 MB."""
_AGENT_WEIGHT = 16
"""Rules that an agent counts for: each is compared with every new one and with each crawl's."""
_WILDCARD_CHARACTERS = 4
"""Characters of a rule with a wildcard that take as long as a plain rule, at worst."""
_PREFERENCE_WEIGHT, _PREFERENCE_CHARACTERS = 8, 16
"""Rules that a preference counts for, and characters of it that take the memory of one more."""

_LINE_ENDS = re.compile(rb"\r\n|[\r\n]")
_RECORD = re.compile(
    rb"[ \t]*(user[- ]?agent|crawl[- ]delay|[a-z-]+)[ \t]*[: \t][ \t]*([^#]*)", re.IGNORECASE
)
_AGENT, _DELAY = "user-agent", "crawl-delay"
_FIELDS = {
    b"user-agent": _AGENT,
    b"user agent": _AGENT,
    b"useragent": _AGENT,
    b"crawl-delay": _DELAY,
    b"crawl delay": _DELAY,
    b"allow": "allow",
    **dict.fromkeys(
        (b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw"), "disallow"
    ),
    **{word.encode(): word for word in (*WORDS, *PREFERENCES)},
}
"""How webmasters spell them."""
_TOKEN = re.compile(rb"[A-Za-z0-9_-]+")
_COMPATIBLE = re.compile(r"Mozilla/[^(]*\([^)]*compatible; *([A-Za-z0-9_-]+)")
_AGENTS_REMEMBERED = 1_000
_APART = re.compile("%(2[135-9BC]|3[ABDF]|40|5[BD])", re.IGNORECASE)
"""Escapes of reserved characters and of ``%``. Protego keeps ``%2F``; ``%24`` and ``%2A`` are how
rules write ``$`` and ``*`` themselves."""
_END = ";"
"""Behind a token: no token holds it, so that ``bot;`` is found in ``bot;`` only."""
_PRINTABLE = tuple(chr(byte) if 0x21 <= byte < 0x7F else f"%{byte:02X}" for byte in range(256))


class LineReader:
    """Reads one file, and weighs what it keeps: about how many rules that is for Protego.

    Each agent of a group has all the rules of the group for itself, so a few kilobytes can stand
    for millions of rules. Reading stops where the file is too heavy.
    """

    def __init__(self) -> None:
        self.weight = 0
        self.words = Words()
        self._lines: list[str] = []
        self._agents: list[str] = []
        self._delays: dict[str, str] = {}
        self._has_begun = True
        """True if the rules of the group have: the next agent opens another group."""

    @property
    def is_too_heavy(self) -> bool:
        """Return whether the file has more rules than can be kept."""
        return self.weight > MOST_RULES

    def read(self, text: bytes) -> str:
        """Return what of a file counts, as Protego reads it; empty where there is no group."""
        for field, value in _records(text):
            self._take(field, value)
            if self.is_too_heavy:
                break
        self._begin()
        for agent, delay in self._delays.items():
            self._lines += (f"{_AGENT}: {agent}", f"{_DELAY}: {delay}")
        return "\n".join(self._lines)

    def _take(self, field: str, value: bytes) -> None:
        if field == _AGENT:
            if self._has_begun:
                self._agents, self._has_begun = [], False
            self._agents.append(_agent(value))
            self.words.know(self._agents[-1])
            self.weight += _AGENT_WEIGHT
            return
        self.weight += len(self._agents)
        if field in PREFERENCES:
            self._prefer(field, value)
        elif field in WORDS:
            self.weight += 1
            self.words.add(self._agents, field, " ".join(map(_printable, value.split())))
        elif field == _DELAY:
            self._delays.update(dict.fromkeys(self._agents, _pattern(value)))
        elif self._agents:
            self._begin()
            self._lines.append(f"{field}: {_pattern(value)}")
            self._weigh_wildcards(value)

    def _prefer(self, field: str, value: bytes) -> None:
        self.weight += _PREFERENCE_WEIGHT + len(value) // _PREFERENCE_CHARACTERS
        self._weigh_wildcards(value)
        self.words.prefer(self._agents, field, value)
        if field == CONTENT_USAGE and not self._has_begun:
            # It is a rule, so the next agent opens another group.
            self._begin()
            self._lines.append("disallow: ")

    def _weigh_wildcards(self, value: bytes) -> None:
        if b"*" in value:
            self.weight += len(value) // _WILDCARD_CHARACTERS

    def _begin(self) -> None:
        if not self._has_begun:
            self._lines += (f"{_AGENT}: {agent}" for agent in self._agents)
            self._has_begun = True


def agent_for(header: str) -> str:
    """Return the name of a client with this User-Agent, as Protego compares it.

    That is its product token, marked at its end.
    """
    return f"{product_token(header)}{_END}"


@lru_cache(_AGENTS_REMEMBERED)
def product_token(header: str) -> str:
    """Return the name that robots.txt and pages call a client with this User-Agent by.

    That is the product token at its beginning or, behind ``Mozilla/5.0 (compatible;``, the first
    one there.
    """
    compatible = _COMPATIBLE.match(header)
    return compatible[1] if compatible else header.partition("/")[0].strip()


def kept_apart(text: str) -> str:
    """Return a rule or URL whose escapes Protego does not take for what they stand for."""
    return _APART.sub(lambda found: f"%25{found[1].upper()}", text) if "%" in text else text


def _records(text: bytes) -> Iterator[tuple[str, bytes]]:
    for line in _LINE_ENDS.split(text.removeprefix(codecs.BOM_UTF8)):
        match = _RECORD.match(line)
        if match and (field := _FIELDS.get(match[1].lower())):
            yield field, match[2].strip(b" \t")


def _agent(value: bytes) -> str:
    if value == b"*" or value[:2] in {b"* ", b"*\t"}:
        return "*"
    token = _TOKEN.match(value)
    return (token[0].decode() if token else "") + _END


def _pattern(value: bytes) -> str:
    return kept_apart(_printable(value))


def _printable(value: bytes) -> str:
    return "".join(map(_PRINTABLE.__getitem__, value))

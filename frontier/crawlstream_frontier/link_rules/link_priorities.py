"""Find the priority rule of a link: the first of its crawl whose conditions hold."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import re2

from crawlstream.model.web.linear import linear_options, linear_set
from crawlstream.model.web.priorities import PriorityRule
from crawlstream_frontier.link_rules.link_filters import Extensions, HostSet

_LINKS_REMEMBERED = 16_384
"""The pages of a site share most of their links; some 5 MB."""
_CRAWLS_REMEMBERED = 128


class LinkPriorities:
    """The rules of one crawl, ready to be compared with links."""

    def __init__(self, rules: Sequence[PriorityRule]) -> None:
        """Raise ValueError if the expressions are too large for RE2 together."""
        self.rules = rules
        self._minds_depth = any(rule.depth for rule in rules)
        self._minds_text = any(rule.text for rule in rules)
        self._urls = _Expressions([rule.match for rule in rules])
        self._texts = _Expressions([rule.text for rule in rules])
        self._hosts = [HostSet(rule.hosts) if rule.hosts else None for rule in rules]
        self._types = [Extensions(rule.types) if rule.types else None for rule in rules]

    def place_of(self, url: str, depth: int, text: str = "") -> int | None:
        """Return the place of the first rule that a link at a depth fits; None if it fits none."""
        return _place_of(
            self, url, depth if self._minds_depth else 0, text if self._minds_text else ""
        )

    def find(self, url: str, depth: int, text: str = "") -> PriorityRule | None:
        """Return the first rule that a link at a depth fits; None if it fits none."""
        place = self.place_of(url, depth, text)
        return None if place is None else self.rules[place]

    def search(self, url: str, depth: int, text: str) -> int | None:
        """Return what ``place_of`` does, which remembers it."""
        urls, texts = self._urls.found_in(url), self._texts.found_in(text)
        for place, rule in enumerate(self.rules):
            if rule.match and place not in urls:
                continue
            if rule.text and place not in texts:
                continue
            if rule.depth and not rule.depth[0] <= depth <= rule.depth[1]:
                continue
            hosts, types = self._hosts[place], self._types[place]
            if (not hosts or hosts.covers(url)) and (not types or types.are_of(url)):
                return place
        return None


@lru_cache(_LINKS_REMEMBERED)
def _place_of(rules: LinkPriorities, url: str, depth: int, text: str) -> int | None:
    return rules.search(url, depth, text)


@lru_cache(_CRAWLS_REMEMBERED)
def priorities_by(rules: tuple[PriorityRule, ...]) -> LinkPriorities:
    """Return the rules of a crawl; compiled once for many pages."""
    return LinkPriorities(rules)


class _Expressions:
    """The expressions of rules that have one, by the place of their rule."""

    def __init__(self, expressions: Sequence[str | None]) -> None:
        self._all = {place: each for place, each in enumerate(expressions) if each}
        self._places = list(self._all)
        self._set: Any = linear_set(list(self._all.values()))
        if self._all and self._set is None:
            raise ValueError("the expressions are too large together")

    def found_in(self, text: str) -> Collection[int]:
        """Return the places of the expressions that are found in a text; none in an empty one."""
        if self._set is None or not text:
            return ()
        if found := self._set.Match(text):
            return [self._places[number - 1] for number in found if number]
        return [  # RE2's memory did not suffice for all together: one by one it needs little.
            place for place, each in self._all.items() if re2.search(each, text, linear_options())
        ]

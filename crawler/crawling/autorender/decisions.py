"""Decisions on pages of crawls with automatic rendering.

They depend on what is known of the site and on the URL, so processes that know the same decide
alike.
"""

from __future__ import annotations

from enum import StrEnum

from crawling.autorender.families import family_of
from crawling.autorender.page_content import PageContent, Shell
from crawling.autorender.record import PairVote, RenderRecord, RenderVerdict


class Why(StrEnum):
    """Reason why a page is rendered."""

    FAMILY = "family"
    """The verdict on its family is `browser`."""
    TRIAL = "trial"
    """A part of all pages is rendered, so that verdicts are found and checked."""
    SHELL = "shell"
    """Its document has next to nothing to read, and scripts."""


def why_at_lease(record: RenderRecord, url: str) -> Why | None:
    """Return why a page is rendered without a look at its document; None: it is not."""
    family = family_of(url)
    if record.verdict(family) is RenderVerdict.BROWSER:
        return Why.FAMILY
    return Why.TRIAL if record.is_tried(family, url) else None


def is_shell(record: RenderRecord, url: str, sent: PageContent) -> bool:
    """Return whether a page must be rendered for what its site has sent."""
    if record.verdict(family_of(url)) is RenderVerdict.PLAIN:
        return sent.shell is Shell.EVIDENT
    return sent.shell is not Shell.NONE


def why_in_browser(record: RenderRecord, url: str, sent: PageContent | None) -> Why:
    """Return why a page has come to a browser, as far as that can be seen there."""
    if record.verdict(family_of(url)) is RenderVerdict.BROWSER:
        return Why.FAMILY
    return Why.TRIAL if sent is None or sent.shell is Shell.NONE else Why.SHELL


def vote_of_pair(record: RenderRecord, url: str, *, is_needed: bool) -> PairVote | None:
    """Return the vote of a rendered page; None: it was not chosen by chance, and would mislead."""
    family = family_of(url)
    is_by_chance = record.verdict(family) is not RenderVerdict.PLAIN or record.is_tried(family, url)
    return PairVote(family, is_needed) if is_by_chance else None


def vote_of_sent(record: RenderRecord, url: str, sent: PageContent) -> PairVote | None:
    """Return the vote of a page without a browser: one without scripts is like a pair."""
    family = family_of(url)
    if sent.has_scripts or record.verdict(family) is not RenderVerdict.UNSURE:
        return None
    return PairVote(family, is_needed=False)

"""A crawl of a small site by the decisions of the product, without servers.

Several pages are in flight at once, and a vote is known some pages later, as between processes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from scrapy.http import HtmlResponse

from crawling.autorender import decisions
from crawling.autorender.decisions import Why
from crawling.autorender.families import family_of
from crawling.autorender.page_content import PageContent, content_of
from crawling.autorender.pairs import needs_browser
from crawling.autorender.record import PairVote, RenderRecord, RenderVerdict, pack, unpack
from support.autorender.small_sites import SmallSite

KNOWN_AFTER = 4
"""Pages that end before a vote is known to all."""


class Fate(NamedTuple):
    """How one page was delivered."""

    path: str
    why: Why | None
    """Why it was rendered; None: it was not."""
    verdict: RenderVerdict
    """Verdict on its family at that time."""


@dataclass
class Walk:
    """Result of one crawl."""

    documents: int = 0
    """Documents that the site was asked for."""
    fates: list[Fate] = field(default_factory=list)
    """Fates of the delivered pages, in their order."""


def crawl(site: SmallSite) -> Walk:
    """Crawl a site breadth first."""
    walk, record, known = Walk(), RenderRecord(), {"/"}
    waiting, votes = deque(["/"]), deque[PairVote | None]()
    while waiting:
        path = waiting.popleft()
        url, page = f"https://{site.name}.example{path}", site.pages[path]
        sent, is_first = _read(url, page.sent), not walk.fates
        why = Why.TRIAL if is_first else decisions.why_at_lease(record, url)
        walk.documents += 1
        if why is None and decisions.is_shell(record, url, sent):
            walk.documents += 1
            why = Why.SHELL
        made, vote = sent, decisions.vote_of_sent(record, url, sent)
        if why is not None:
            made = _read(url, page.made)
            vote = decisions.vote_of_pair(record, url, is_needed=needs_browser(sent, made))
        walk.fates.append(Fate(path, why, record.verdict(family_of(url))))
        links = sorted(link for link in made.links if link in site.pages and link not in known)
        known.update(links)
        waiting.extend(links)
        votes.append(vote)
        if len(votes) > KNOWN_AFTER or is_first:
            record.add(each for each in [votes.popleft()] if each)
            record = unpack(pack(record, 1))
    return walk


def _read(url: str, text: str) -> PageContent:
    return content_of(HtmlResponse(url, body=text.encode(), encoding="utf-8"))

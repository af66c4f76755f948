"""Manual verdicts on families of URLs, as commands and REST set them."""

from __future__ import annotations

from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.waste.packing import unpack
from crawlstream_frontier.waste.persons import PersonVerdict, key_of
from crawlstream_frontier.waste.report import SketchReport, report_of

FORGET = "forget"
"""Word for taking a verdict back."""
WHY_NOT = {
    "too_many": "a site has at most 64 manual verdicts, all sites 1000: --forget some first",
    "unknown": "no person has decided about it",
}
"""Answers of ``decide`` besides ``OK``, in words."""


async def decide(frontiers: Frontiers, host: str, word: str, *, family: str, author: str) -> str:
    """Store a manual verdict on a family of the site of a host; return ``OK``, or why not.

    ``word`` is a ``PersonWord`` or ``FORGET``; ``family`` its name as it is shown.
    RedisUnavailable.
    """
    site, verdicts = await frontiers.site_of(host), frontiers.root.person_verdicts
    if word == FORGET:
        return await verdicts.forget(site, family)
    (raw,) = await frontiers.of_host(host).sketches.read([site])
    key = key_of(family, unpack(raw))
    return await verdicts.put(PersonVerdict(site, family, key, word, author))


async def guard_report(frontiers: Frontiers, host: str) -> SketchReport:
    """Return what was learned of the site of a host, and its manual verdicts."""
    site = await frontiers.site_of(host)
    (raw,) = await frontiers.of_host(host).sketches.read([site])
    return report_of(site, unpack(raw), await frontiers.root.person_verdicts.all())

"""Links to what is blocked, where they shall not queue."""

from __future__ import annotations

from typing import Any, cast

from crawling.links.blacklist import Blacklist
from crawlstream.model.crawl import Entry
from crawlstream.model.effects import Links
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.model.url import domain_key, host_of
from crawlstream.wire.stored import decode_entry, encode_entry
from crawlstream_frontier.throttle_rules import ThrottleRules
from support.pages import page_at

TABLE = ThrottleTable(
    default=ThrottleRule(hits=1, window_s=1),
    rules={"free.bad.com": ThrottleRule(hits=1, window_s=1)},
    blacklist=frozenset({"bad.com", "shop.a.com"}),
)


class _Rules:
    async def table(self) -> ThrottleTable:
        return TABLE


def group(*urls: str) -> Links:
    """Links of one domain."""
    return Links(
        domain=domain_key(host_of(urls[0])),
        priority=1,
        fingerprints=[str(number) for number, _ in enumerate(urls)],
        entries=[encode_entry(Entry(url=url)) for url in urls],
    )


async def test_links_to_blocked_domains_and_hosts_are_filtered() -> None:
    """A block covers what is below it, and of a domain that is parted the blocked hosts alone."""
    blacklist = Blacklist(cast(ThrottleRules, cast(Any, _Rules())), drops=True)
    page = page_at()
    groups = [
        group("http://a.com/", "http://shop.a.com/1", "http://x.shop.a.com/2", "http://b.a.com/3"),
        group("http://free.bad.com/"),
        group("http://shop.b.com/"),
    ]
    assert blacklist.screen(page, groups) == groups
    await blacklist.look()
    kept = blacklist.screen(page, groups)
    urls = [[decode_entry(entry).url for entry in each.entries] for each in kept]
    assert urls == [["http://a.com/", "http://b.a.com/3"], ["http://shop.b.com/"]]
    assert kept[0].fingerprints == ["0", "3"]
    assert page.filtered["blacklist"] == 3

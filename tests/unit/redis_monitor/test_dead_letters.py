"""A dead letter has the page to replay, for its spider, with no more fields than it had."""

from __future__ import annotations

import json
import time
from base64 import b64decode
from dataclasses import replace
from typing import Any

import pytest

from crawling.page.page import Page
from crawling.page.scrapy_request import to_scrapy
from crawling.spiders.link import LinkSpider
from crawlstream.bus.outbound import Outbound
from crawlstream.bus.records import Record
from crawlstream.keys import Topics
from crawlstream.model.crawl import READS_SITEMAP, CrawlKey, Entry, Lease, Profile
from crawlstream.model.effects import OutboxRecord, Seed
from crawlstream.model.request import RequestLimits
from crawlstream.model.web.priorities import PriorityRule
from crawlstream.model.web.url_parameters import Parameters
from crawlstream.plugins.seeds import seed_fed
from crawlstream.wire import replies
from crawlstream.wire.stored import decode_entry
from redis_monitor.dead_letters import dead_letter

CRAWL = CrawlKey("sitemap", "shop", "spring")
PROFILE = Profile(
    seed_url="https://shop.com/",
    maxdepth=2,
    cookie="session=secret",
    cookies={"also": "secret"},
    headers={"Authorization": "Bearer secret"},
    site="https://shop.com",
)


OUTBOUND = Outbound(None, Topics("demo"))  # type: ignore[arg-type]


def hold_of(entry: Entry, profile: Profile = PROFILE, crawl: CrawlKey = CRAWL) -> Lease:
    """A page that a worker has leased."""
    return Lease(
        token="",
        crawl=crawl,
        run=1,
        domain="shop.com",
        priority=1,
        entry=entry,
        profile=profile,
        retries=0,
        issued_at=0,
    )


def letter_of(lease: Lease, spiderid: str = "") -> dict[str, Any]:
    """The record on the topic of what was rejected."""
    owed = OutboxRecord(
        id="1",
        kind="page_failed",
        crawl=lease.crawl,
        run=1,
        server_time=1,
        lease=lease,
        reason="domain_unreachable",
        spiderid=spiderid,
    )
    _, rejected, *replies = dead_letter(owed, lease, OUTBOUND)
    assert not replies
    return dict(json.loads(rejected.value))


def replayed(letter: dict[str, Any]) -> Seed:
    """The seed that kafka-monitor makes of a letter that is fed again."""
    raw = b64decode(letter["raw"])
    record = Record("in", 0, 0, int(time.time() * 1000), None, raw)
    return seed_fed(json.loads(raw), record, RequestLimits())


def sent(lease: Lease) -> dict[str, list[bytes]]:
    """The headers of a page's request."""
    request = to_scrapy(Page(lease, "0" * 32), LinkSpider(), lambda _: None)
    return {name.decode(): values for name, values in request.headers.items()}


@pytest.mark.parametrize(
    "url",
    [
        "https://shop.com/a",
        "https://www.shop.com/a",
        "http://shop.com/a",
        "https://tracker.net/pixel",
        "https://shop.com.tracker.net/",
    ],
)
def test_a_replayed_page_receives_the_credentials_that_it_had(url: str) -> None:
    """Its request has them where the page's had, and carries none to another site."""
    lease = hold_of(Entry(url=url, depth=1))
    seed = replayed(letter_of(lease))
    again = sent(hold_of(decode_entry(seed.entry), seed.profile, seed.crawl))
    named = ("Cookie", "Authorization")
    assert [again.get(name) for name in named] == [sent(lease).get(name) for name in named]
    if "tracker" in url:
        assert "secret" not in repr(seed)


def test_a_replayed_page_goes_to_the_spider_that_it_was_for() -> None:
    """A page that a sitemap handed over is parsed as a page, and what it loses is named."""
    entry = Entry(url="https://shop.com/p", depth=1, callback="parse_product", meta={"a": 1})
    letter = letter_of(hold_of(entry), spiderid="products")
    assert replayed(letter).crawl == CrawlKey("products", "shop", "spring")
    assert letter["errors"][1:] == [
        "$: replayed, it is a seed without the callback, meta that its page had",
        "$.spiderid: replayed, it is a crawl of the spider products, as its page was",
    ]


def test_a_page_below_a_seed_that_has_moved_stays_in_scope() -> None:
    """Replays it with the host that the seed has moved to among its domains."""
    profile = Profile(maxdepth=2, allowed_domains=("shop.com",), redirects="any", directives="obey")
    entry = Entry(url="https://new.example/a", depth=1, moved_to="new.example")
    seed = replayed(letter_of(hold_of(entry, profile)))
    assert seed.profile.allowed_domains == ("shop.com", "new.example")
    assert (seed.profile.redirects, seed.profile.directives) == ("any", "obey")


def test_a_body_that_json_cannot_carry_is_named() -> None:
    """A replay sends other bytes, which the command reports before."""
    entry = Entry(url="https://shop.com/a", method="POST", body=b"\xff\x00")
    (_, loss) = letter_of(hold_of(entry))["errors"]
    assert loss == "$: replayed, it is a seed without the binary body that its page had"


def test_a_page_that_comes_back_as_it_was_loses_nothing() -> None:
    """A plain page, and a seed with a method, a body and conditions, name no loss."""
    conditions = {"If-None-Match": '"x"'}
    for entry in (
        Entry(url="https://shop.com/a", depth=1),
        Entry(url="https://shop.com/", origin="in-0-1", headers=conditions),
        Entry(url="https://shop.com/", origin="in-0-1", method="POST", body=b"a=1"),
    ):
        letter = letter_of(hold_of(entry), spiderid="sitemap")
        assert len(letter["errors"]) == 1
        again = decode_entry(replayed(letter).entry)
        assert (again.method, again.body) == (entry.method, entry.body)


@pytest.mark.parametrize("use", ["also", "only"])
def test_a_replayed_page_does_not_lead_to_all_sitemaps_again(use: str) -> None:
    """Leads to sitemaps only from a seed or a sitemap, not from a replayed page."""
    profile = Profile(maxdepth=3, sitemaps=use)
    page = Entry(url="https://shop.com/page", depth=1)
    again = replayed(letter_of(hold_of(page, profile))).profile
    assert (again.sitemaps, again.maxdepth) == (None, 2 if use == "also" else 0)
    for entry in (replace(page, depth=0, origin="in-0-1"), replace(page, callback=READS_SITEMAP)):
        again = replayed(letter_of(hold_of(entry, profile))).profile
        assert (again.sitemaps, again.maxdepth) == (use, 3 - entry.depth)


def test_priority_rules_hold_below_a_replayed_page() -> None:
    """Levels are counted from the page, and rules for levels above it are left out.

    Its parameters stay.
    """
    rules = (
        PriorityRule(match="/a", types=("pdf",), hosts=("a.example",), add=0),
        PriorityRule(depth=(2, 5), drop=True),
        PriorityRule(depth=(1, 2), add=10),
    )
    page = Entry(url="https://shop.com/page", depth=3)
    names = Parameters(keep=("id",), drop=("utm_*",))
    profile = Profile(maxdepth=9, priorities=rules, parameters=names)
    again = replayed(letter_of(hold_of(page, profile))).profile
    assert again.priorities == (rules[0], PriorityRule(depth=(0, 2), drop=True))
    assert again.parameters == names
    above = Profile(maxdepth=9, priorities=rules[2:])
    assert replayed(letter_of(hold_of(page, above))).profile.priorities is None


def test_a_client_that_waits_for_the_page_is_answered() -> None:
    """Answers a client about the page of its seed only; the replay asks for no reply."""
    profile = replace(PROFILE, uuid="u1", answer="page")
    seed = Entry(url="https://shop.com/a", origin="in-0-3")
    owed = OutboxRecord(
        id="1", kind="page_failed", crawl=CRAWL, run=4, server_time=1, reason="no_worker"
    )
    failed, rejected, told = dead_letter(owed, hold_of(seed, profile), OUTBOUND)
    reply = replies.decode_page(told.value)
    assert reply is not None
    assert (told.topic, reply.uuid, reply.reason) == ("demo.outbound_firehose", "u1", "no_worker")
    assert (reply.id, reply.url) == (json.loads(failed.value)["id"], seed.url)
    asked = json.loads(b64decode(json.loads(rejected.value)["raw"]))
    assert asked.keys().isdisjoint({"uuid", "answer"})
    below = hold_of(replace(seed, origin=None), profile)
    assert len(dead_letter(owed, below, OUTBOUND)) == 2

"""``crawlstream info``: what is being crawled, and how far it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

from crawlstream.boot.settings import load_settings
from crawlstream.errors import CrawlstreamError
from crawlstream.model.words.condition import pace
from crawlstream.model.words.price import amounts
from crawlstream.model.words.quantities import by_reason, duration, size
from crawlstream.wire import jsontext
from crawlstream_cli.common.cluster_requests import refusal, request_reply
from crawlstream_cli.common.console import print_line
from crawlstream_cli.common.times import moment, until
from crawlstream_cli.common.which import (
    AppId,
    Spider,
    condition_of,
    unknown_crawl,
    which_crawl,
    with_crawlers,
)
from crawlstream_cli.common.words import counted, of_families
from crawlstream_cli.crawls import read_crawls, show_crawls

_BAR = 30
"""Characters."""
_MOST_DOMAINS = 5
"""Lines; ``--json`` has all."""


def info(
    crawlid: Annotated[
        str | None, typer.Argument(metavar="CRAWL", help="Crawl to show; default: all crawls.")
    ] = None,
    appid: AppId = None,
    spider: Spider = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show all crawls, or the progress of one crawl.

    Shows counts of pages by what became of them, the pace, the time left, and the domains where
    most pages wait. Exit code 1 if there is no such crawl.

    Example: crawlstream info 7f3a9c0b12de --json
    """
    settings = load_settings()
    if crawlid is None:
        found = asyncio.run(read_crawls(settings, appid=appid, spiderid=spider))
        show_crawls(*asyncio.run(with_crawlers(settings, found)), as_json=as_json)
        return
    crawl = asyncio.run(which_crawl(settings, crawlid, appid=appid, spider=spider))
    reply = asyncio.run(request_reply(settings, {"action": "info", **asdict(crawl)}))
    if why := refusal(reply):
        raise CrawlstreamError(why)
    if reply.get("state") == "unknown":
        raise unknown_crawl(crawlid, appid, spider)
    known = dict(asyncio.run(condition_of(settings, crawl)))
    badge = str(known.pop("badge", reply["state"]))
    if as_json:
        print_line(jsontext.dumps({**reply, **known}).decode())
        return
    for name, value in rows_of(reply, now=time.time(), badge=badge):
        print_line(f"{name:<9} {value}")


def rows_of(reply: Mapping[str, Any], *, now: float, badge: str = "") -> Iterator[tuple[str, str]]:
    """Yield the rows of a reply to ``info`` for a person; ``now`` is in epoch seconds.

    ``badge``: text in place of its state.
    """
    spider, failed = reply["spiderid"], sum(reply["failed"].values())
    skipped = reply.get("skipped", {})
    ended = reply["done"] + reply["redirected"] + failed + sum(skipped.values())
    yield (
        "crawl",
        f"{reply['crawlid']} of application {reply['appid']}, spider {spider}, run {reply['run']}",
    )
    ends = reply.get("paused_until")
    yield "state", (badge or reply["state"]) + (f" {until(ends, now=now)}" if ends else "")
    yield "progress", _bar(ended, reply["admitted"])
    counts = f"{reply['done']:,} done, {reply['redirected']:,} redirected, {failed:,} failed"
    yield "pages", f"{counts}{_reasons(reply['failed'])}"
    yield "waiting", f"{counted(reply['pending'], 'page')}, {reply['in_flight']:,} in flight"
    if reply["held_back"]:
        yield "held back", by_reason(reply["held_back"])
    yield from _left_out(reply)
    if paid := reply.get("charged"):
        yield "charged", amounts({currency: int(sum_) for currency, sum_ in paid.items()})
    yield from _budgets(reply, now)
    yield "pace", _pace(reply, ended, now=now)
    yield "started", moment(reply["started"], now=now)
    yield "active", moment(reply["last_activity"], now=now)
    if reply.get("remember") is not None:
        pages = counted(reply["counted"], "page")
        yield "remembers", f"{pages}, for {duration(reply['remember'])} after a run"
    domains = sorted(reply["domains"].items(), key=lambda each: -each[1]["total"])
    for domain, backlog in domains[:_MOST_DOMAINS]:
        yield "queued at", f"{domain}: {counted(backlog['total'], 'page')}"
    if len(domains) > _MOST_DOMAINS:
        yield "", f"and {counted(len(domains) - _MOST_DOMAINS, 'domain')} more"


def _left_out(reply: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("skipped", "filtered"):
        if counts := reply.get(name):
            yield name, by_reason(counts)
    if families := reply.get("refused_families"):
        yield "refused", of_families(families)


def _bar(ended: int, admitted: int) -> str:
    share = ended / admitted if admitted else 0.0
    filled = int(share * _BAR)
    pages = counted(admitted, "admitted page")
    return f"{'█' * filled}{'░' * (_BAR - filled)} {int(share * 100)}% of {pages}"


def _budgets(reply: Mapping[str, Any], now: float) -> Iterator[tuple[str, str]]:
    """Yield what the run has spent of each budget, and when it ends at the latest."""
    for name, told in reply.get("budgets", {}).items():
        show = size if name == "max_bytes" else "{:.0%}".format
        yield "budget", f"{name}: {show(told['spent'])} of {show(told['budget'])}"
    for name, domains in reply.get("spent_domains", {}).items():
        yield "budget", f"{name}: spent by {counted(domains, 'domain')}"
    if reply["state"] in {"running", "paused"} and reply.get("expires"):
        yield "ends", until(int(reply["expires"]), now=now).removeprefix("until ")


def _pace(reply: Mapping[str, Any], ended: int, *, now: float) -> str:
    is_running = reply["state"] == "running"
    took_s = (now if is_running else reply["last_activity"]) - reply["started"]
    left = reply["pending"] + reply["in_flight"] if is_running else 0
    return pace(ended, left=left, took_s=took_s, idle_s=now - reply["last_activity"])


def _reasons(counts: Mapping[str, int]) -> str:
    return f" ({by_reason(counts)})" if counts else ""

"""A story: one crawl on hosts of its own, in which the features of a pair meet."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from crawlstream_chaos.facts.facts import HostRule, TopicRecord
from crawlstream_chaos.scripted_site import Answer, SeenRequest, page
from crawlstream_chaos.witness import ENDINGS
from interplay.truth import Expected, Leaf, Walk
from support.waiting import wait_until

if TYPE_CHECKING:
    from interplay.ground import Ground

RESULTS = "crawled_firehose"
_GATE_S = 60
_STORED_S = 30
"""Rows are there within a second; a law finds those that are missing then."""
HEAD_BYTES = "5000000000"
"""The Content-Length of a page that is requested with HEAD."""
_XML = {"Content-Type": "application/xml"}
_HTML = {"Content-Type": "text/html"}


class Feature:
    """A feature that users combine with others. ``name`` and ``about`` are what a failure prints.

    A feature is a module of ``interplay.features`` that has one subclass; it is crossed with all
    others by itself. Features of a story are arranged in the order of ``rank``.
    """

    name: str
    about: str
    rank = 50

    def arrange(self, story: Story) -> None:
        """Change the web, the request or the number of feedings, before anything is fed."""

    async def prepare(self, story: Story) -> None:
        """Set what the cluster must know before the first feeding."""

    async def act(self, story: Story) -> None:
        """Act in the first feeding, while the root page is being fetched."""

    async def finish(self, story: Story) -> None:
        """Act when all runs have ended."""

    def expect(self, story: Story) -> Sequence[str]:
        """Return the faults at the end that the laws of all stories do not cover."""
        return ()


Feed = Callable[["Story", int], Awaitable[None]]


async def feed_request(story: Story, _number: int) -> None:
    """Feed the crawl request, as any client does."""
    story.note(f"feed {story.request}")
    await asyncio.to_thread(story.ground.feed, story.request)


class Story:
    """A plain crawl as the features have changed it, and its records."""

    def __init__(self, ground: Ground, features: Sequence[Feature], number: int) -> None:
        self.ground = ground
        self.features = sorted(features, key=lambda feature: feature.rank)
        self.number = number
        self.host = f"127.{40 + number // 250}.{number % 250}.1"
        self.guest = f"127.{40 + number // 250}.{number % 250}.2"
        self.images = f"127.{40 + number // 250}.{number % 250}.3"
        self.appid, self.crawlid = f"story-{number}", f"crawl-{number}"
        self.spiderid, self.pages_spider = "link", "link"
        self.root = self.seed = self.url("/")
        self.request: dict[str, Any] = {"maxdepth": 3}
        self.rounds, self.times = 1, 1
        self.feed: Feed = feed_request
        self.endings = "crawl_finished"
        """The event that ends the first run."""
        self.most: int | None = None
        self.most_per_host: int | None = None
        self.spends_domains = False
        """True if a domain spends its budget in each run: some of its pages do not come."""
        self.forgets = False
        """True if seen URLs are forgotten between two feedings."""
        self.reads_nothing = False
        """True if the root page has no body, and so no links."""
        self.markup = ""
        """Markup in all of its pages."""
        self.steps: list[str] = []
        self.visits: list[SeenRequest] = []
        self.robots: Answer = Answer(status=404)
        self.rules: list[HostRule] = []
        """Rules of its hosts, besides the wide one of all hosts."""
        self.gate = threading.Event()
        self._round = 0
        self._reached = False
        self.web = self._plain_web()
        for feature in self.features:
            feature.arrange(self)
        if self.reads_nothing:
            self.web[self.root].links = lambda _number: ()
        self._fill_request()

    def url(self, path: str, host: str = "") -> str:
        """Return the URL of a path on the story's own site."""
        return self.ground.site.url(path, host or self.host)

    def note(self, step: str) -> None:
        """Write down a step, for the person who reads a failure."""
        self.steps.append(step)

    def _plain_web(self) -> dict[str, Leaf]:
        shared = [self.url("/a"), self.url("/b"), self.url("/guest", self.guest)]
        fresh = [self.url(f"/fresh-{number}") for number in range(3)]
        web = {self.root: Leaf(lambda number: [*shared, fresh[number]])}
        web |= {url: Leaf() for url in (*shared, *fresh, self.url("/deep"))}
        web[self.url("/a")].links = lambda _number: [self.url("/deep")]
        return web

    def _fill_request(self) -> None:
        if self.spiderid == "sitemap":
            self.request["attrs"] = {"pages_spider": self.pages_spider}
        elif self.pages_spider != "link":
            self.spiderid = self.pages_spider
        named = {"appid": self.appid, "crawlid": self.crawlid, "spiderid": self.spiderid}
        self.request = {"url": self.seed, **named, **self.request}

    # The site.

    def answer_to(self, visit: SeenRequest) -> Answer:
        """Serve the story's web; the root page waits until the features have acted."""
        self.visits.append(visit)
        if visit.path == "/robots.txt":
            return self.robots if visit.host == self.host else Answer(status=404)
        leaf = self.web.get(self.url(visit.path, visit.host))
        if leaf is None:
            return Answer(status=404)
        if leaf.moved_to:
            return Answer(status=301, headers={**_HTML, "Location": leaf.moved_to})
        if leaf.refusals:
            leaf.refusals -= 1
            return Answer(status=503, headers={**_HTML, "Retry-After": "1"})
        if self.url(visit.path, visit.host) == self.root:
            self._reached = True
            self.gate.wait(_GATE_S)
        if visit.method == "HEAD":
            return Answer(headers={**_HTML, "Content-Length": HEAD_BYTES})
        return _document(leaf, self._round, self.markup)

    # The course of events.

    async def play(self) -> None:
        """Feed as often as the features want, let them act, and wait for each ending."""
        for feature in self.features:
            await feature.prepare(self)
        for number in range(self.rounds):
            self._round = number
            await self.feed(self, number)
            if number == 0:
                await wait_until(lambda: self._reached)
                for feature in self.features:
                    await feature.act(self)
                self.gate.set()
            await wait_until(lambda n=number: len(self.ended()) > n)  # type: ignore[misc]
            self.note(f"run {number + 1} ended: {self.ended()[number].value['event']}")
        await wait_until(self._all_read)
        for feature in self.features:
            await feature.finish(self)
        with suppress(TimeoutError):
            await wait_until(self._all_stored, timeout_s=_STORED_S, every_s=0.2)

    def ended(self) -> Sequence[TopicRecord]:
        """Return the endings of its runs so far, repeats left out."""
        found = [r for r in self.records("events") if r.value["event"] in ENDINGS]
        return list({r.value["run"]: r for r in found}.values())

    def records(self, topic: str) -> Sequence[TopicRecord]:
        """Return what the cluster has told of the crawl on a topic."""
        spider = self.spiderid
        return [r for r in self.all_records(topic) if r.value.get("spiderid", spider) == spider]

    def all_records(self, topic: str) -> Sequence[TopicRecord]:
        """Return what it has told of all crawls of the application."""
        return [r for r in self.ground.witness.of(self.appid) if r.topic == topic]

    def rows(self) -> Sequence[Mapping[str, Any]]:
        """Return what the pipeline has stored."""
        return self.ground.rows(self.appid)

    def _all_stored(self) -> bool:
        return len(self.rows()) >= len({r.key for r in self.all_records(RESULTS)})

    def _all_read(self) -> bool:
        done = sum(ending.value["counters"]["done"] for ending in self.ended())
        return len({r.key for r in self.records(RESULTS)}) >= int(done)

    def expected(self) -> Sequence[Expected]:
        """Return what each feeding must bring, by the model."""
        walk, found = Walk(self.web, self.request["maxdepth"]), []
        for number in range(self.rounds):
            found.append(walk.feeding(number, self.seed, self.times if number == 0 else 1))
            if self.forgets or (number == 0 and self.endings != "crawl_finished"):
                walk.seen.clear()
        return found


def _document(leaf: Leaf, number: int, markup: str) -> Answer:
    links = leaf.links(number)
    if leaf.format == "html":
        return page(*links, text=markup)
    listed = "".join(f"<url><loc>{link}</loc></url>" for link in links)
    return Answer(f"<urlset>{listed}</urlset>".encode(), headers=_XML)


def readable(story: Story, wrong: Mapping[str, Sequence[str]]) -> str:
    """Describe a failed story as steps that a person can follow."""
    features = [f"  {feature.name}: {feature.about}" for feature in story.features]
    steps = [f"  {number}. {step}" for number, step in enumerate(story.steps, 1)]
    visits = [f"  {visit.method} {visit.host}{visit.path}" for visit in story.visits]
    laws = [f"  {law}: {what}" for law, found in wrong.items() for what in found]
    parts = ("features", features), ("steps", steps), ("the site saw", visits), ("broken", laws)
    return "\n".join(line for title, lines in parts for line in (f"{title}:", *lines))

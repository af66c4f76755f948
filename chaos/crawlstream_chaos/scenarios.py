"""The table of faults that the cluster must survive: each row a named scenario."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from crawlstream_chaos.facts.facts import EMPTIES_SHELF
from crawlstream_chaos.faults import Fault
from crawlstream_chaos.nemesis import FAULTS, OF_SEARCH
from crawlstream_chaos.rounds import Round, RoundResult, rate_for
from crawlstream_chaos.scenes.answered import answer_beside
from crawlstream_chaos.scenes.companions import (
    Companion,
    feed_beside,
    fire_beside,
    play_beside,
    retire_beside,
)
from crawlstream_chaos.scenes.paid import play_paid
from crawlstream_chaos.scenes.poison import eat_poison
from crawlstream_chaos.scenes.proxied import play_proxied
from crawlstream_chaos.scenes.rendered import play_rendered
from crawlstream_chaos.scenes.revisited import revisit_beside
from crawlstream_chaos.scenes.rolling import roll
from crawlstream_chaos.scenes.scraped import scrape_beside
from crawlstream_chaos.scenes.skipped import skip_beside
from crawlstream_chaos.scripts import (
    ask_much,
    die_at_each_step,
    feed_much,
    live_full,
    lose_a_log,
    strike_at_once,
    strike_in_turn,
)
from crawlstream_chaos.strikes.browsers import OF_RENDERERS
from crawlstream_chaos.strikes.pipeline_faults import OF_PIPELINES

Script = Callable[[Round], Awaitable[None]]
Divided = Literal["one", "several", "any"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A row of the table: its script, and its requirements besides the laws."""

    name: str
    about: str
    script: Script
    shortest_s: float = 12
    """A round that is shorter would be over before its faults."""
    rate: float = 0
    """Requests a host and second while faults strike; 0: so that the web lasts for the round."""
    has_pipelines: bool = False
    """True if pipelines store the results."""
    has_shelf: bool = False
    """True if the middle of queues is on a server of its own."""
    is_proxied: bool = False
    """True if all pages go through proxies, which are struck."""
    is_paid: bool = False
    """True if a purse pays for pages of a web that costs money."""
    is_rendered: bool = False
    """True if browsers make all pages, on a web whose links only scripts make."""
    has_versions: bool = False
    """True if the cluster starts with the version before."""
    partitions: Divided = "any"
    """How many partitions the frontier may have for it: one, several, or any number."""
    beside: Sequence[Companion] = ()
    """Crawls that run during the whole script."""

    def fits(self, partitions: int) -> bool:
        """Return whether it can be played on a frontier of this number of partitions."""
        return self.partitions in ("any", "one" if partitions == 1 else "several")

    async def play(self, round_: Round) -> RoundResult:
        """Play a round of it."""
        if self.is_rendered:
            return await play_rendered(round_, self.script, rate=self.rate)
        if self.is_paid:
            return await play_paid(round_, self.script, rate=self.rate)
        rate = self.rate or rate_for(round_)
        if self.is_proxied:
            return await play_proxied(round_, rate=rate)
        return await round_.play(partial(play_beside, self.beside, self.script), rate=rate)


def _named(*names: str) -> Sequence[Fault]:
    return [FAULTS[name] for name in names]


def _in_turn(*names: str) -> Script:
    return partial(strike_in_turn, _named(*names))


def _at_once(faults: Sequence[Fault]) -> Script:
    return partial(strike_at_once, faults)


_OF_NETWORKS = [
    name
    for name, fault in FAULTS.items()
    if name.startswith(("cut-", "slow-", "mute-", "half-open-"))
    and fault.is_for_all
    and not fault.needs_partitions
]
_AROUND_SHELF = (
    *("kill-shelf", "freeze-shelf", "cut-shelf", "mute-shelf", "kill-redis", "power-cut"),
    *("mute-redis", "kill-redis-monitor", "freeze-redis-monitor", "end-redis-monitor"),
    *("kill-crawler", "step-clock"),
)
_BESIDE_PIPELINES = (
    *("kill-crawler", "die-at-step", "freeze-crawler", "kill-redis", "kill-kafka", "freeze-kafka"),
    *("cut-kafka", "mute-kafka", "half-open-kafka"),
)
_BESIDE_VERSIONS = (
    *("kill-crawler", "die-at-step", "kill-kafka-monitor", "kill-redis-monitor", "freeze-crawler"),
    *("kill-redis", "power-cut", "kill-kafka", "cut-redis", "mute-redis", "cut-kafka"),
)
_WAITING = 0.25
"""Requests a host and second with which pages wait until all versions have changed."""
EVERY = [fault for fault in FAULTS.values() if fault.is_for_all]

SCENARIOS: Mapping[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "upgrade",
            "processes change between the version before and this one, in any order",
            partial(roll, ()),
            shortest_s=30,
            rate=_WAITING,
            has_versions=True,
            beside=(feed_beside, fire_beside),
        ),
        Scenario(
            "upgrade-kills",
            "the same while processes and servers are killed",
            partial(roll, _named(*_BESIDE_VERSIONS)),
            shortest_s=60,
            rate=_WAITING,
            has_versions=True,
            beside=(feed_beside, fire_beside),
        ),
        Scenario(
            "crawler-kill",
            "a crawler killed -9 at random every 0.5 to 5 s",
            _in_turn("kill-crawler"),
        ),
        Scenario(
            "crawler-steps",
            "a crawler killed at each step between lease and complete",
            die_at_each_step,
            shortest_s=30,
        ),
        Scenario(
            "crawler-frozen",
            "crawlers frozen at some step past their deadline, then continued",
            # Side by side, because each takes so long.
            _at_once(_named("freeze-long")),
            shortest_s=60,
        ),
        Scenario(
            "feed",
            "kafka-monitor killed during many requests, rebalances, more partitions",
            partial(feed_much, _named("kill-kafka-monitor", "rebalance", "add-partitions")),
            # Some seeds always wait: a crawl without work is over, and the next seed begins a new
            # run.
            rate=1,
        ),
        Scenario(
            "stop",
            "redis-monitor killed while crawls are stopped, each twice",
            partial(ask_much, _named("kill-redis-monitor")),
        ),
        Scenario("redis-kill", "Redis killed -9 and restarted", _in_turn("kill-redis")),
        Scenario("redis-power", "Redis' host loses its power", _in_turn("power-cut")),
        Scenario("redis-empty", "Redis emptied", _in_turn("empty-redis"), shortest_s=20),
        Scenario("kafka", "Kafka killed or frozen", _in_turn("kill-kafka", "freeze-kafka")),
        Scenario(
            "kafka-away",
            "Kafka does not answer for half a minute; an application's own topic misses nothing",
            _in_turn("away-kafka"),
            shortest_s=60,
        ),
        Scenario(
            "zookeeper",
            "ZooKeeper killed or frozen, its node emptied or broken",
            _in_turn("kill-zookeeper", "freeze-zookeeper", "break-rules"),
        ),
        Scenario(
            "clocks",
            "clocks of crawlers an hour off, Redis' clock set forwards and back, by days too",
            _in_turn("wrong-clock", "step-clock", "jump-clock"),
            shortest_s=25,
        ),
        Scenario("memory", "Redis at maxmemory", _in_turn("fill-redis")),
        Scenario(
            "full",
            "Redis kept at maxmemory for a minute and more while processes are killed",
            partial(
                live_full,
                _named("kill-crawler", "kill-kafka-monitor", "kill-redis-monitor", "cut-redis"),
            ),
            shortest_s=60,
            # Stops behind seeds that wait for one of several partitions are not read ahead.
            partitions="one",
        ),
        Scenario(
            "log-truncated",
            "a partition of incoming loses its end and waits, until a person decides",
            lose_a_log,
            shortest_s=60,
            # Positions of several partitions know no leader epochs.
            partitions="one",
        ),
        Scenario(
            "partition",
            "one partition killed, frozen, cut off from its last moments",
            _in_turn("kill-partition", "freeze-partition", "cut-partition"),
            partitions="several",
        ),
        Scenario(
            "partition-wipe",
            "one partition loses its disk",
            _in_turn("wipe-partition"),
            shortest_s=20,
            partitions="several",
        ),
        Scenario(
            "home",
            "the home of the crawl killed, cut off from its last moments, its disk lost",
            _in_turn("kill-home", "cut-home", "wipe-home"),
            shortest_s=20,
            partitions="several",
        ),
        Scenario(
            "partition-feed",
            "small crawls are fed all the while partitions, homes and their readers are struck",
            _in_turn(
                *("kill-partition", "freeze-partition", "cut-partition", "kill-home"),
                *("cut-home", "wipe-home", "wipe-partition", "kill-kafka-monitor"),
            ),
            shortest_s=30,
            partitions="several",
            beside=(feed_beside,),
        ),
        Scenario(
            "home-stop",
            "crawls are stopped, each twice, while their homes are killed and cut off",
            partial(ask_much, _named("kill-home", "cut-home", "kill-redis-monitor")),
            partitions="several",
        ),
        Scenario(
            "links",
            "readers of links frozen and killed, partitions that have read links go back",
            _in_turn("lag-links", "kill-kafka-monitor", "cut-partition"),
            shortest_s=20,
            partitions="several",
        ),
        Scenario(
            "firings",
            "a schedule whose seeds redirect fires again and again while processes die",
            _in_turn(
                *(
                    "kill-crawler",
                    "kill-kafka-monitor",
                    "kill-redis-monitor",
                    "freeze-redis-monitor",
                ),
                *("kill-redis", "power-cut", "kill-kafka"),
            ),
            shortest_s=30,
            beside=(fire_beside,),
        ),
        Scenario(
            "retired",
            "the last crawler of a spider stops for good while its pages wait for their time",
            _in_turn(
                *("kill-redis-monitor", "freeze-redis-monitor", "end-redis-monitor", "kill-redis"),
                *("power-cut", "kill-kafka", "kill-kafka-monitor"),
            ),
            shortest_s=150,
            beside=(retire_beside,),
        ),
        Scenario(
            "skips",
            "pages that the waste guard skips while crawlers die between event and end",
            _in_turn(
                *("die-at-step", "kill-crawler", "freeze-crawler", "end-crawler", "kill-redis"),
                *("power-cut", "kill-kafka", "kill-redis-monitor"),
            ),
            shortest_s=20,
            beside=(skip_beside,),
        ),
        Scenario(
            "answers",
            "clients that wait for their pages while each process between them is killed",
            _in_turn(
                *("die-answering", "die-at-step", "kill-crawler", "kill-kafka-monitor"),
                *("kill-redis-monitor", "freeze-crawler", "kill-redis", "power-cut", "kill-kafka"),
            ),
            shortest_s=20,
            beside=(answer_beside,),
        ),
        Scenario(
            "scrapes",
            "clients of POST /v2/scrape during a crawl while REST and all others die or pause",
            _in_turn(
                *("kill-rest", "freeze-rest", "kill-crawler", "die-answering", "kill-redis"),
                *("kill-kafka-monitor", "kill-redis-monitor", "freeze-kafka", "freeze-redis"),
            ),
            rate=3,
            shortest_s=20,
            beside=(scrape_beside,),
        ),
        Scenario("poison", "a page that kills its worker", eat_poison),
        Scenario(
            "network",
            "a bad network before Redis and Kafka",
            _in_turn(*_OF_NETWORKS),
        ),
        Scenario(
            "proxies",
            "pages through 20 proxies that are killed, frozen, muted, locked; all gone twice",
            Round.feed_front_page,
            shortest_s=60,
            is_proxied=True,
        ),
        Scenario(
            "signed",
            "the key that requests are signed with changes while crawlers and REST die",
            _at_once(
                _named(
                    *("rotate-key", "kill-crawler", "freeze-crawler", "end-crawler"),
                    *("kill-rest", "freeze-rest", "kill-redis"),
                )
            ),
            shortest_s=40,
        ),
        Scenario(
            "paid",
            "pages that cost money; crawlers die as they pay, Redis forgets what it reserved",
            _at_once(
                _named(
                    *("die-paying", "die-at-step", "kill-crawler", "freeze-crawler", "end-crawler"),
                    *("kill-redis", "power-cut", "freeze-redis", "cut-redis", "mute-redis"),
                    *("fill-redis", "step-clock", "rotate-key", "kill-redis-monitor"),
                )
            ),
            shortest_s=60,
            is_paid=True,
        ),
        Scenario(
            "render",
            "pages that browsers make; crawlers and their browsers killed and frozen",
            _in_turn(*(fault.name for fault in OF_RENDERERS)),
            is_rendered=True,
        ),
        Scenario(
            "pipeline",
            "processes and stores of pipelines struck while crawlers and Kafka are, too",
            _at_once([*OF_PIPELINES, *OF_SEARCH, *_named(*_BESIDE_PIPELINES)]),
            shortest_s=90,
            has_pipelines=True,
            beside=(revisit_beside,),
        ),
        Scenario(
            "shelf",
            "the shelf of long queues killed, frozen, cut off; Redis and its monitors, too",
            _at_once(_named(*_AROUND_SHELF)),
            shortest_s=30,
            has_shelf=True,
        ),
        Scenario(
            "shelf-empty",
            "the shelf emptied: what it had fails by name, all else comes",
            _in_turn(EMPTIES_SHELF),
            shortest_s=20,
            has_shelf=True,
        ),
        Scenario(
            "combined",
            "three faults at a time, of all kinds",
            partial(strike_at_once, EVERY),
            beside=(feed_beside, fire_beside, retire_beside),
        ),
    )
}


def chosen(faults: Sequence[str]) -> Scenario:
    """Return the requested scenario: one of the table, or some faults in turn."""
    is_rendered = any(fault.name in faults for fault in OF_RENDERERS)
    about = ", ".join(faults)
    return Scenario("chosen", about, _in_turn(*faults), is_rendered=is_rendered)

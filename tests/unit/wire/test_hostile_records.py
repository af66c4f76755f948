"""Every record of the corpus is refused for its reason, at the door that all records come to."""

from __future__ import annotations

from collections import Counter

from crawlstream.errors import InvalidRequest, InvalidUrl
from crawlstream.model.request import Refusal, RequestLimits
from crawlstream.plugins.handlers import Router
from kafka_monitor.plugins.action_handler import ActionHandler
from kafka_monitor.plugins.scraper_handler import ScraperHandler
from kafka_monitor.plugins.stats_handler import StatsHandler
from kafka_monitor.plugins.zookeeper_handler import ZookeeperHandler
from support.hostile_records import corpus

LEAST = 400
OURS = (ScraperHandler, ActionHandler, StatsHandler, ZookeeperHandler)


def test_the_corpus_is_large_and_knows_every_reason() -> None:
    """Hundreds of records, each once, and none of the reasons is left out."""
    records = corpus()
    assert len({one.name for one in records}) == len(records) >= LEAST
    assert Counter(one.raw for one in records).most_common(1)[0][1] == 1
    assert {one.reason for one in records} == set(Refusal)


def test_every_hostile_record_has_its_reason() -> None:
    """None is accepted, none raises anything else, and each is explained in sentences."""
    router = Router([handler() for handler in OURS], RequestLimits())

    def judged(raw: bytes | None) -> str:
        try:
            router.route(raw)
        except InvalidRequest as refused:
            is_explained = refused.problems and all(p.startswith("$") for p in refused.problems)
            return refused.reason if is_explained else "unexplained"
        except InvalidUrl:
            return Refusal.BAD_URL
        return "accepted"

    assert {one.name: judged(one.raw) for one in corpus()} == {
        one.name: one.reason for one in corpus()
    }

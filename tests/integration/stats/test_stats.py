"""Counters and heartbeats: counts are shown in every window, and nothing grows without bound."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from types import SimpleNamespace

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from crawlstream.boot.settings import load_settings
from crawlstream.keys import FrontierKeys
from crawlstream.model.process import Process
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.model.traffic import DomainTraffic
from crawlstream.stats import domains as domains_module
from crawlstream.stats.complaints import note_complaint
from crawlstream.stats.domains import DomainTally, read_counts, read_domains
from crawlstream.stats.heartbeat import Heartbeat, Work, living
from crawlstream.stats.tally import Tally
from crawlstream.stats.traffic import FAMILY, KINDS, Traffic, read_past, read_total
from crawlstream.stats.windows import LIFETIME, MINUTE, QUARTER, WINDOWS_S, grain_for
from crawlstream_cli.common.absent import absence
from crawlstream_frontier.rule_history import note_author, note_changes, read_changes
from redis_monitor.actions.counter_history import CounterHistory
from support.waiting import WaitUntil

KEYS = FrontierKeys()
EVERY_WINDOW = {str(window_s) for window_s in WINDOWS_S} | {LIFETIME}


async def test_a_count_is_told_in_every_window(redis: Redis) -> None:
    """A new count is in all windows and in the lifetime."""
    tally = Tally(redis, KEYS)
    tally.count("kafka-monitor", "total", by=3)
    tally.count("kafka-monitor", "plugins", "Odd:Name")
    await tally.flush()
    tally.count("kafka-monitor", "total")
    await tally.flush()

    counted = await CounterHistory(redis, KEYS).read("kafka-monitor")

    assert counted["total",] == dict.fromkeys(EVERY_WINDOW, 4)
    assert counted["plugins", "Odd:Name"] == dict.fromkeys(EVERY_WINDOW, 1)


async def test_counts_of_processes_add_up(redis: Redis) -> None:
    """Two processes that count the same are shown as one number."""
    for _ in range(2):
        tally = Tally(redis, KEYS)
        tally.count_response("link", "host-a", 200)
        await tally.flush()

    history = CounterHistory(redis, KEYS)

    assert (await history.read("spider"))["link", "200"]["900"] == 2
    assert (await history.read("machine"))["host-a", "200"][LIFETIME] == 2


async def test_domains_are_told_with_rate_and_latency(redis: Redis) -> None:
    """Responses, the share below 400, and the mean latency of those that came, busiest first."""
    domains = DomainTally(redis, KEYS)
    for status, latency_ms in ((200, 10), (200, 30), (404, 80), (504, None)):
        domains.count("busy.example", status, latency_ms)
    domains.count("::1", 504, None, reason="dns")
    await domains.flush_if_due()
    domains.count("::1", 504, None, reason="dns")
    await domains.flush_if_due()
    domains.hurry()
    await domains.flush_if_due()

    told = await read_domains(redis, KEYS)

    why = {"http_404": 1, "http_504": 1}
    busy = DomainTraffic(responses=4, success_rate=0.5, latency_ms=40, reasons=why)
    assert list(told.items()) == [
        ("busy.example", busy),
        ("::1", DomainTraffic(responses=2, success_rate=0, latency_ms=None, reasons={"dns": 2})),
    ]


async def test_domains_are_told_with_their_rate_over_time(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Per minute, by quarter of an hour, oldest first; the last is a mean over what there was."""
    quarter, domains = 900, DomainTally(redis, KEYS)
    now = (int(time.time()) // quarter + 1) * quarter + 300
    for at, count in ((now - 2 * quarter, 30), (now, 10)):
        clock = SimpleNamespace(time=lambda at=at: at, monotonic=time.monotonic)
        monkeypatch.setattr(domains_module, "time", clock)
        for _ in range(count):
            domains.count("steady.example", 200, 5)
        domains.hurry()
        await domains.flush_if_due()

    told = (await read_domains(redis, KEYS))["steady.example"]

    assert told.per_minute == [0, 0, 2, 0, 2]
    assert told.responses == 40


async def test_many_domains_are_told_as_one(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """The busiest travel under their names while there is room; others are summed, none is lost."""
    monkeypatch.setattr(domains_module, "MOST_A_FLUSH", 3)
    monkeypatch.setattr(domains_module, "MOST_A_BUCKET", 4)
    for flush in range(3):
        domains = DomainTally(redis, KEYS)
        for number in range(10):
            for _ in range(11 - number):
                domains.count(f"d{number + flush}.example", 200, 5)
        await domains.flush_if_due()

    told = await read_domains(redis, KEYS)

    assert len(told) <= 5
    assert sum(domain.responses for domain in told.values()) == 3 * sum(range(2, 12))
    assert told["d0.example"].responses == 11
    (key,) = [name async for name in redis.scan_iter("*stats:domain:*")]
    assert 3600 < await redis.ttl(key) <= 3600 + 2 * 900


async def test_no_site_makes_up_reasons(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Odd statuses are one reason, a flush brings a domain's three, and a bucket gets full."""
    monkeypatch.setattr(domains_module, "MOST_REASONS_A_BUCKET", 4)
    domains = DomainTally(redis, KEYS)
    for flush in range(3):
        for status in (*range(400, 420), *range(600, 999)):
            domains.count(f"d{flush}.example", status, 5)
        domains.hurry()
        await domains.flush_if_due()

    told = await read_domains(redis, KEYS)

    assert told["d0.example"].top_reason in {"http_6xx", "http_7xx", "http_8xx", "http_9xx"}
    assert [len(domain.reasons) for domain in told.values()] == [3, 3, 0]


async def test_traffic_is_told_by_the_minute_and_the_quarter(redis: Redis) -> None:
    """Downloads by what they brought, in buckets that are over; and everything since the start."""
    tally = Tally(redis, KEYS)
    for status, latency_ms in ((200, 10), (204, 30), (302, 5), (404, 7), (500, 8), (504, None)):
        tally.count_traffic(status, latency_ms)
    await tally.flush()
    for grain in (MINUTE, QUARTER):
        bucket = KEYS.stats(FAMILY, grain.bucket(time.time()))
        await redis.copy(bucket, KEYS.stats(FAMILY, grain.bucket(time.time() - grain.width_s)))

    total = await read_total(redis, KEYS)

    assert dict(zip(KINDS, total.counts, strict=True)) == {
        "2xx": 2,
        "3xx": 1,
        "4xx": 1,
        "5xx": 1,
        "failed": 1,
    }
    assert (total.success, total.latency_ms) == (0.5, 12)
    assert total.since(total) == Traffic((0, 0, 0, 0, 0), 0)
    for span_s, width_s, number in ((3600, 60, 60), (86400, 900, 96), (604800, 900, 672)):
        past = await read_past(redis, KEYS, span_s)
        assert len(past) == number
        assert past[-1][1:] == (width_s, total)
        assert time.time() - width_s < past[-1][0] <= time.time()
        assert past[0][2].success is None


async def test_old_buckets_go_away(redis: Redis) -> None:
    """Each bucket has a time to live as long as the longest window that can reach it."""
    tally = Tally(redis, KEYS)
    tally.count("spider", "link", "200")
    await tally.flush()

    now_s = time.time()
    for grain in (MINUTE, QUARTER):
        ttl_s = await redis.ttl(KEYS.stats("spider", grain.bucket(now_s)))
        assert grain.span_s < ttl_s <= grain.ttl_s


async def test_a_tally_flushes_by_itself_and_at_its_end(
    redis: Redis, wait_until: WaitUntil
) -> None:
    """Counts arrive within about a second, and those of the last moment too."""
    tally = Tally(redis, KEYS)
    running = asyncio.create_task(tally.run())
    tally.count("spider", "link", "200")
    await wait_until(lambda: redis.exists(KEYS.stats("spider", LIFETIME)))

    tally.count("spider", "link", "200")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert (await CounterHistory(redis, KEYS).read("spider"))["link", "200"][LIFETIME] == 2


async def test_what_could_not_be_written_is_written_later(redis: Redis) -> None:
    """A flush into a Redis that is away keeps its counts for the next one."""
    away = Redis(host="127.0.0.1", port=1, retry=Retry(NoBackoff(), 0))
    tally = Tally(away, KEYS)
    tally.count("spider", "link", "200")
    await tally.flush()
    await away.aclose()

    tally._redis = redis
    await tally.flush()

    assert (await CounterHistory(redis, KEYS).read("spider"))["link", "200"][LIFETIME] == 1


async def test_machines_silent_for_a_week_are_forgotten(redis: Redis) -> None:
    """The lifetime of a machine ends when no window has it; others keep theirs."""
    tally = Tally(redis, KEYS)
    tally.count_response("link", "host-a", 200)
    await tally.flush()
    await redis.hset(KEYS.stats("machine", LIFETIME), "gone-host:200", "7")

    history = CounterHistory(redis, KEYS)

    assert await history.forget_machines() == 1
    assert set(await history.read("machine")) == {("host-a", "200")}


@pytest.mark.parametrize("window_s", WINDOWS_S)
def test_a_window_weighs_its_buckets(window_s: int) -> None:
    """Buckets add up to exactly the length of the window, wherever in a bucket it ends."""
    grain = grain_for(window_s)
    for now_s in (1_000_000_000.0, 1_000_000_059.9, 1_000_000_321.5):
        weights = list(grain.weights(now_s, window_s))
        covered_s = now_s % grain.width_s + sum(weights[1:]) * grain.width_s
        assert covered_s == pytest.approx(window_s)
        assert len(weights) <= len(grain.buckets(now_s))


async def test_a_process_lives_from_its_first_beat_to_its_retirement(redis: Redis) -> None:
    """A process with a heartbeat is listed with all its data, until it leaves."""
    heartbeat = Heartbeat(redis, KEYS, Process(kind="crawler", spider="link"))
    await heartbeat.beat()
    assert await living(redis, KEYS) == [heartbeat.process]

    await heartbeat.retire()
    assert await living(redis, KEYS) == []


async def test_a_process_tells_what_it_does(redis: Redis) -> None:
    """Work per second between beats, what is in flight, memory, and its latest warnings."""
    done = iter((100.0, 150.0))
    for number in range(7):
        note_complaint(
            None, "", {"level": "warning", "event": f"odd\n{number}", "error": "x" * 400}
        )
    note_complaint(None, "", {"level": "info", "event": "fine"})
    note_complaint(None, "", {"level": "warning", "event": "no group", "logger": "kafka.x"})
    note_complaint(None, "", {"level": "warning", "event": "settle", "outcome": "failed"})
    heartbeat = Heartbeat(
        redis, KEYS, Process(kind="crawler", spider="link"), work=lambda: Work(next(done), 3)
    )
    await heartbeat.beat()
    (first,) = await living(redis, KEYS)
    assert first.activity.rate is None
    await heartbeat.beat()
    (process,) = await living(redis, KEYS)
    told = process.activity
    assert (told.rate or 0) > 0
    assert (told.in_flight, len(told.complaints)) == (3, 5)
    assert (told.resident_bytes or 0) > 1_000_000
    assert told.complaints[0].text.startswith("odd 6 error=xxx")
    assert (len(told.complaints[0].text), told.complaints[0].level) == (300, "warning")
    assert time.time() - told.complaints[0].at < 60
    await redis.hdel(KEYS.process(process.name), "rate", "in_flight", "rss", "!0")
    (older,) = await living(redis, KEYS)
    assert (older.activity.rate, older.activity.in_flight) == (None, None)
    await heartbeat.retire()


async def test_a_process_that_falls_silent_is_forgotten(redis: Redis) -> None:
    """Removes a process from reports and index once its key has expired."""
    heartbeat = Heartbeat(redis, KEYS, Process(kind="crawler", spider="link"))
    await heartbeat.beat()
    assert 0 < await redis.ttl(KEYS.process(heartbeat.process.name)) <= 20

    await redis.delete(KEYS.process(heartbeat.process.name))

    assert await living(redis, KEYS) == []
    assert await redis.zcard(KEYS.processes()) == 0


async def test_a_spider_of_which_no_crawler_runs_is_told(redis: Redis) -> None:
    """Names the running spiders; claims nothing without an answer from Redis."""
    place = redis.connection_pool.connection_kwargs
    settings = load_settings(redis_host=place["host"], redis_port=place["port"])
    await Heartbeat(redis, KEYS, Process(kind="crawler", spider="link")).beat()
    await Heartbeat(redis, KEYS, Process(kind="rest")).beat()

    assert await absence(settings, "link") == ""
    assert await absence(settings, "shop") == (
        "No crawler of spider shop is running (running: link), so the crawl waits"
    )
    assert await absence(load_settings(redis_port=1), "shop") == ""


async def test_changes_of_rules_are_remembered(redis: Redis) -> None:
    """The latest 500, once each, with the first process that made the version."""
    rule = ThrottleRule(hits=1, window_s=1)
    tables = [ThrottleTable(default=rule, mzxid=0)]
    for number in range(1, 8):
        rules = {f"{number}-{host}.test": rule for host in range(49)}
        tables.append(ThrottleTable(default=rule, rules=rules, mzxid=number))
    for before, after in pairwise(tables):
        for _ in range(2):
            await note_changes(redis, KEYS, before, after)
        await note_author(redis, KEYS, after.mzxid, f"key {after.mzxid}")
    assert await redis.zcard(KEYS.rule_changes()) == 500
    latest = await read_changes(redis, KEYS)
    assert len(latest) == 20
    assert {(one.change.version, one.by) for one in latest} == {(7, "key 7")}
    assert time.time() - latest[0].at < 60
    (one,) = await read_changes(redis, KEYS, "7-5.test")
    assert (one.change.before, one.change.after) == ("", str(rule))
    assert await read_changes(redis, KEYS, "1-1.test") == []


async def test_a_domain_is_counted_by_quarters(redis: Redis) -> None:
    """Its latest requests, by the beginning of each quarter of an hour."""
    tally = DomainTally(redis, KEYS)
    for _ in range(3):
        tally.count("quarters.test", 200, 5)
    await tally.flush_if_due()
    ((begin, count),) = (await read_counts(redis, KEYS, "quarters.test")).items()
    assert (count, begin % 900) == (3, 0)
    assert 0 <= time.time() - begin < 1800
    assert await read_counts(redis, KEYS, "nobody.test") == {}

"""Settings of a memory and its visits in the file of the pipelines."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlstream.errors import ConfigError
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import PageFailed
from crawlstream.wire import events
from pipeline_service.spec.config import Pipeline, read
from pipeline_service.spec.memory import PagesSink, Visits
from pipeline_service.spec.rule import DAY_S, Bounds

SINK = 'sink = {kind = "pages", url = "sqlite:///x"}'
GUIDE = Path(__file__).parents[3] / "docs" / "recurring.md"


def one(text: str, name: str = "a") -> Pipeline:
    """The pipeline of a text that has one."""
    return read(f"[pipeline.{name}]\n{text}", {})[name]


def test_what_is_not_said_has_its_default() -> None:
    """Pages are only remembered, by their visible text."""
    pipeline = one(SINK)
    assert pipeline.sink == PagesSink(url="sqlite:///x")
    assert pipeline.visits is None
    assert [spec.kind for spec in pipeline.stage] == ["signature"]
    assert not one(SINK.replace("}", ', signature = "body"}')).stage


def test_changes_are_events_where_that_is_said() -> None:
    """Processes with and without them have different settings; others keep their digest."""
    told = one(SINK.replace("}", ", changes = {events = true}}"))
    plain = one(SINK)
    assert told.sink.changes  # type: ignore[union-attr]
    assert repr(told) == repr(plain)
    assert told.digest != plain.digest
    assert one(SINK.replace("}", ", changes = {events = false}}")).digest == plain.digest
    stage = 'stage = [{use = "markdown"}]\n'
    digests = {
        one(stage + SINK.replace("}", f", changes = {{events = true, {more}}}}}")).digest
        for more in ('diff = "none"', 'diff = "lines"', 'where = {url = "a"}')
    }
    assert len(digests) == 3


def test_a_secret_is_shown_nowhere() -> None:
    """Shows neither a secret nor its URL; processes agree on the URL, not on the secret."""
    hook = 'webhook = "https://x.example/token", secret = "{}"'
    first, second = (
        one(SINK.replace("}", f", changes = {{events = true, {hook.format(secret)}}}}}"))
        for secret in ("0123456789abcdef", "fedcba9876543210")
    )
    assert first.digest == second.digest
    assert isinstance(first.sink, PagesSink)
    for text in (repr(first), repr(first.sink.changes)):
        assert "0123" not in text
        assert "token" not in text


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("changes = true", r"sink.changes: expected a table"),
        ("changes = {}", r"sink.changes: missing: events = true"),
        ("changes = {event = true}", r"sink.changes: .*event"),
        (
            'changes = {events = true, where = {url = "("}}',
            r"sink.changes.where.url: not an expression of RE2",
        ),
        ('changes = {events = true, where = {appid = "a"}}', r"sink.changes.where: .*appid"),
        ('changes = {events = "yes"}', r"sink.changes.events: expected true or false"),
        ('changes = {events = false, diff = "lines"}', r"sink.changes.diff needs events = true"),
        (
            'changes = {events = true, secret = "x"}',
            r"changes.secret signs what is sent",
        ),
        ("changes = {events = true, webhook = 1}", r"sink.changes.webhook: expected text"),
        (
            'changes = {events = true, webhook = "ftp://x.example/", secret = "0123456789abcdef"}',
            r"sink.changes.webhook: must be https://host or http://host",
        ),
        (
            'changes = {events = true, webhook = "https://me@x.example/"}',
            r"sink.changes.webhook: must be a URL without credentials",
        ),
        (
            'changes = {events = true, webhook = "https://x.example/", secret = "short"}',
            r"sink.changes.secret: a webhook needs a secret of at least 16 characters",
        ),
        ('changes = {events = true, diff = "words"}', r'sink.changes.diff: expected "lines" or'),
        (
            'changes = {events = true, diff = "lines"}',
            r"sink.changes.diff: there is no stage that makes a text: add one, use = \"markdown\"",
        ),
        (
            f'table = "{"t" * 57}", changes = {{events = true}}',
            r"sink.table: with changes, the name has at most 56 characters",
        ),
    ],
)
def test_changes_that_are_not_understood_are_refused(said: str, sentence: str) -> None:
    """Refuses unknown changes with the key that is wrong."""
    with pytest.raises(ConfigError, match=sentence):
        one(SINK.replace("}", f", {said}}}"))


def test_all_that_can_be_said_of_visits_is_read() -> None:
    """Bounds lack what those of all pages have."""
    visits = one(
        f"""{SINK}
        [pipeline.a.visits]
        per_day = 100
        min = "90m"
        max = "30d"
        power = 0
        in_flight = 5
        answer_within = "1h"
        crawl = {{spiderid = "shop", priority = 3}}
        [[pipeline.a.visits.bounds]]
        domain = ["Example.com"]
        min = "1m"
        [[pipeline.a.visits.bounds]]
        url = "/archive/"
        max = 90_000
        """
    ).visits
    assert visits == Visits(
        per_day=100,
        power=0.0,
        in_flight=5,
        answer_within=3_600.0,
        crawl={"spiderid": "shop", "priority": 3},
        bounds=(
            Bounds(least_s=60, most_s=30 * DAY_S, domain=frozenset({"example.com"})),
            Bounds(least_s=5_400, most_s=90_000, url="/archive/"),
            Bounds(least_s=5_400, most_s=30 * DAY_S),
        ),
    )
    assert visits.look_every_s == 3.0


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("per_day = 0", r"visits.per_day: expected an integer from 1"),
        ('per_day = 5\nbase = "1h"', r"visits: base follows from per_day"),
        ('min = "2d"\nmax = "1d"', r"visits: min is more than max"),
        (
            'min = "1w"',
            r'visits.min: expected a duration from 1 seconds to 3650 days, such as "90m"',
        ),
        ("power = 2", r"visits.power: expected a number from 0 to 1"),
        ("often = 1", r"visits: unknown key 'often'; known: min, max, per_day"),
        ("bounds = 1", r"visits.bounds: expected tables"),
        ('bounds = [{min = "1h"}]', r"visits.bounds: expected url or domain"),
        ('bounds = [{url = "("}]', r"visits.bounds.url: not an expression of RE2"),
        ('bounds = [{domain = "a"}]', r"visits.bounds.domain: expected a list of domains"),
        ('crawl = {crawlid = "x"}', r"visits.crawl: \$.crawlid: a visit has it of its own"),
        ('crawl = {cookie = "a=b"}', r"visits.crawl: \$.cookie: credentials are for one site"),
        ("crawl = {cookies = {a = 'b'}}", r"visits.crawl: \$.cookies: credentials"),
        ("crawl = {headers = {X-Api-Key = 'b'}}", r"visits.crawl: \$.headers: credentials"),
        ("crawl = {priority = 1000}", r"visits.crawl: \$.priority"),
        ("crawl = 1", r"visits.crawl: expected a table"),
        ('cron = "@daily"', r"visits.cron: must have 5 fields.*write `0 0"),
        ('cron = "0 2 * * *"\nzone = "Berlin"', r"visits.zone: 'Berlin' is not a time zone"),
        ('zone = "Europe/Berlin"', r"visits: zone is the time zone of cron: add cron"),
        (
            'cron = "0 2 * * *"\nper_day = 5\nmin = "1h"',
            r"visits: cron visits all pages at its times: remove per_day, min",
        ),
    ],
)
def test_visits_that_cannot_be_meant_are_refused(said: str, sentence: str) -> None:
    """Refuses wrong visits by the key, with the allowed values."""
    with pytest.raises(ConfigError, match=sentence):
        one(f"{SINK}\n[pipeline.a.visits]\n{said}")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('sink = {kind = "pages"}', r"sink: missing: url"),
        ('sink = {kind = "pages", url = "mysql://x"}', r"sink.url: expected \"postgresql://"),
        (SINK.replace("}", ', body = "bytes"}'), r"sink: unknown key 'body'"),
        (SINK.replace("}", ', signature = "price"}'), r"sink.signature: expected text, body, or"),
        (SINK.replace("}", ", keep = true}"), r"sink.keep: there is no stage that makes fields"),
        (SINK.replace("}", ', signature = "items"}'), r"or, of stages that make fields, items"),
        (
            'sink = {kind = "files", path = "/x"}\nvisits = {}',
            r'only pages of a sink of kind = "pages"',
        ),
    ],
)
def test_memories_that_cannot_be_meant_are_refused(text: str, sentence: str) -> None:
    """Refuses a wrong memory by the key, with the allowed values."""
    with pytest.raises(ConfigError, match=sentence):
        one(text)


def test_visits_may_have_headers_that_identify_nobody() -> None:
    """Such as a language."""
    crawl = "crawl = {headers = {Accept-Language = 'de'}}"
    visits = one(f"{SINK}\n[pipeline.a.visits]\n{crawl}").visits
    assert visits is not None
    assert visits.crawl == {"headers": {"Accept-Language": "de"}}


def test_a_name_leaves_room_for_that_of_its_visits() -> None:
    """Occasions have names of forty characters."""
    visits = f"{SINK}\nvisits = {{}}"
    assert one(visits, "a" * 33).visit_schedule == f"visits-{'a' * 33}"
    with pytest.raises(ConfigError, match="has at most 33 characters"):
        one(visits, "a" * 34)


def test_the_guide_has_every_key() -> None:
    """It has those of the sink and those of visits."""
    text = GUIDE.read_text(encoding="utf-8")
    for key in ("per_day", "base", "power", "in_flight", "answer_within", "crawl", "bounds"):
        assert f"| `{key}` |" in text, key
    for key in ("signature", "mask_digits", "keep", "changes", "cron`, `zone"):
        assert f"| `{key}` |" in text, key


def test_a_failure_is_read_as_it_is_written() -> None:
    """Any other record is none, whatever its bytes are."""
    failed = PageFailed(
        id="1",
        crawl=CrawlKey("link", "app", "job"),
        run=2,
        server_time=3,
        url="http://example.com/",
        reason="timeout",
        attempts=4,
        depth=5,
        parent_url="http://example.com/parent",
        detail="too slow",
    )
    value = events.encode(failed)
    assert events.decode_page_failed(value) == failed
    for other in (b"", b"{", b'["page_failed"]', b'{"event": "page_failed"}'):
        assert events.decode_page_failed(other) is None
    assert events.decode_page_failed(value.replace(b'"run":2', b'"run":"x"')) is None
    assert events.decode_page_failed(value.replace(b'"id":"1"', b'"id":1')) is None
    assert (
        events.decode_page_failed(value.replace(b'"page_failed"', b'"other","x":"page_failed"'))
        is None
    )

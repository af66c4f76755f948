"""The budget law of requests: whatever a record of 2 MiB holds, it costs little, or is refused.

Each record is judged as a kafka-monitor and REST judge it, and what the crawler compiles of it is
compiled. Families are made from seeds, so that a failure can be repeated.
"""

from __future__ import annotations

import json
import os
import random
import time
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from crawling.links.patterns import Patterns
from crawlstream.bus.outbound import Outbound
from crawlstream.bus.records import Record
from crawlstream.errors import InvalidRequest
from crawlstream.keys import Topics
from crawlstream.model.request import CrawlRequest, RequestLimits
from crawlstream.plugins.handlers import Router
from crawlstream.wire import requests
from kafka_monitor.plugins.action_handler import ActionHandler
from kafka_monitor.plugins.scraper_handler import ScraperHandler
from kafka_monitor.plugins.stats_handler import StatsHandler
from kafka_monitor.plugins.zookeeper_handler import ZookeeperHandler
from kafka_monitor.rejections import RejectedRecord, RejectionPublisher

LIVES = int(os.environ.get("BUDGET_RECORDS", "4"))
"""Records of each family; 15 is the long form, two minutes."""
MOST_CPU_S = 1.0
MOST_BYTES = 100 << 20
SIZE = 2 * 1024 * 1024 - 200
CRAWL = {"url": "http://example.com/", "appid": "budget", "crawlid": "budget"}

Make = Callable[[random.Random], bytes]


def crawl(**fields: object) -> bytes:
    """A crawl request with more fields."""
    return json.dumps({**CRAWL, **fields}, ensure_ascii=False).encode()


def filled(begin: str, item: str, end: str, *, size: int = SIZE) -> bytes:
    """A crawl request with a field made of as many items as fit."""
    head = json.dumps(CRAWL)[:-1] + f", {begin}"
    count = (size - len(head) - len(end)) // len(item.encode())
    return (head + (item * count).rstrip(",") + end).encode()


def numbered(begin: str, item: str, end: str) -> bytes:
    """As ``filled``, with a number in each item, where equal ones would be one."""
    head = json.dumps(CRAWL)[:-1] + f", {begin}"
    items = (item % number for number in range(SIZE // (len(item) + 5)))
    return (head + ",".join(items)[: SIZE - 100].rpartition(",")[0] + end).encode()


PARTS = (
    *("[\x01-\ufffe]", "[\u4e00-\u4e8c]", "[^a]", "(a?)", "(?:a{1,1000}){1,9}", "\\w+", "(?=a)"),
    *(
        "(?P<n%d>a)",
        "(?i:[\x01-\uffff])",
        "[a\u3042\u4e00\uffff]",
        "(a|b|[\u0100-\U0010ffff])*",
        "x*x*x*",
        "\\1",
        "{1000}",
    ),
)


def expression(dice: random.Random, length: int) -> str:
    """A text of up to ``length`` characters, out of what compilers find hard."""
    text = dice.choice(("", "(?i)", "(?i)", "(?s)", "(?x)"))
    while True:
        part = dice.choice(PARTS) if dice.random() < 0.9 else "(" * dice.randrange(50)
        part = part.replace("%d", str(len(text)))
        if len(text) + len(part) > length:
            return text + ")" * dice.choice((0, text.count("(") - text.count(")")))
        text += part


def expressions(dice: random.Random) -> bytes:
    """As many as are allowed, all hard, of one kind or of many."""
    one = dice.choice(PARTS[:5])
    kinds: Sequence[Callable[[int], str]] = (
        lambda _: expression(dice, 1000),
        lambda number: f"(?i)a{number}" + one * (980 // len(one)),
        lambda number: f"a{number}" + one * (980 // len(one)),
    )
    make = dice.choice(kinds)
    lists = {name: [make(n) for n in range(100)] for name in ("allow_regex", "deny_regex")}
    return crawl(**lists)


def nested(dice: random.Random) -> bytes:
    """JSON of any depth and breadth, ended or cut."""
    opening = dice.choice(('{"a":', "[", '[{"a":[', '{"\\u0061":{"b":'))
    depth = dice.choice((10, 100, 127, 129, 5_000, SIZE // len(opening)))
    text = json.dumps(CRAWL)[:-1] + ', "attrs": ' + (opening * depth)[: SIZE - 1000]
    return text.encode()


def noise(dice: random.Random) -> bytes:
    """Any bytes behind a good beginning."""
    alphabet = dice.choice((b'[]{}",:\\', b'"\\', b"0123456789.eE-+", bytes(range(256)), b"[{"))
    body = bytes(dice.choices(alphabet, k=4096)) * (SIZE // 4096 - 1)
    return json.dumps(CRAWL).encode()[:-1] + b', "attrs": ' + body


FAMILIES: dict[str, Make] = {
    "expressions": expressions,
    "nested": nested,
    "noise": noise,
}
SINGLE: dict[str, Callable[[], bytes]] = {
    "domains of one letter": partial(filled, '"allowed_domains": [', '"a",', "]}"),
    "domains": partial(numbered, '"allowed_domains": [', '"a%d.example"', "]}"),
    "extensions": partial(numbered, '"deny_extensions": [', '"e%d"', "]}"),
    "expressions without end": partial(numbered, '"allow_regex": [', '"%d"', "]}"),
    "empty expressions": partial(filled, '"deny_regex": [', '"",', "]}"),
    "numbers for domains": partial(filled, '"allowed_domains": [', "1,", "]}"),
    "objects for domains": partial(filled, '"allowed_domains": [', "{},", "]}"),
    "attrs of objects": partial(filled, '"attrs": {"a": [', "{},", "]}}"),
    "attrs of lists": partial(filled, '"attrs": {"a": [', "[],", "]}}"),
    "attrs of numbers": partial(filled, '"attrs": {"a": [', "1,", "]}}"),
    "attrs of floats": partial(filled, '"attrs": {"a": [', "1.5,", "]}}"),
    "attrs of long numbers": partial(filled, '"attrs": {"a": [', "12345678901234567890123,", "]}}"),
    "attrs of objects beside a long number": partial(
        filled, '"attrs": {"b": 12345678901234567890123, "a": [', "{},", "]}}"
    ),
    "attrs of names": partial(numbered, '"attrs": {', '"%d":0', "}}"),
    "attrs of escapes": partial(filled, '"attrs": {"a": "', "\\u00e9", '"}}'),
    "attrs of wide text": partial(filled, '"attrs": {"a": "', "\U0001f600", '"}}'),
    "headers": partial(numbered, '"headers": {', '"h%d":"v"', "}}"),
    "headers of numbers": partial(numbered, '"headers": {', '"h%d":1', "}}"),
    "cookies": partial(numbered, '"cookies": {', '"c%d":"v"', "}}"),
    "unknown fields": partial(numbered, "", '"f%d":0', "}"),
    "one field over and over": partial(filled, "", '"a":0,', "}"),
    "a long body": partial(filled, '"body": "', "b", '"}'),
    "a long body of escapes": partial(filled, '"body": "', "\\ud83d\\ude00", '"}'),
    "a long url": partial(filled, '"url": "http://a.com/', "%", '"}'),
    "a url of dots": partial(filled, '"url": "http://', "a.", 'com/"}'),
    "a url of slashes": partial(filled, '"url": "http://a.com/', "../", '"}'),
    "a url of signs": partial(filled, '"url": "http://', "@:[", '"}'),
    "a long appid": partial(filled, '"appid": "', "\\u0000", '"}'),
    "a long uuid": partial(filled, '"uuid": "', "\u2028", '"}'),
    "a long number": partial(filled, '"priority": ', "9", "}"),
    "a list for an action": partial(filled, '"action": [', "[],", "]}"),
    "blanks": lambda: b" " * SIZE,
    "quotes": lambda: b'"' * SIZE,
    "backslashes": lambda: b'{"' + b"\\" * SIZE + b'"}',
}


ALL: dict[str, Callable[[], bytes]] = SINGLE | {
    f"{name} {seed}": partial(lambda make, seed: make(random.Random(seed)), make, seed)
    for name, make in FAMILIES.items()
    for seed in range(LIVES)
}


def judge(raw: bytes) -> None:
    """All that is done to a record until it is stored or refused, and by the crawler before use."""
    handlers = (ScraperHandler(), ActionHandler(), StatsHandler(), ZookeeperHandler())
    try:
        Router(handlers, RequestLimits()).route(raw)
        request = requests.decode(raw)
    except InvalidRequest as error:
        record = Record("demo.incoming", 0, 0, 0, None, raw)
        rejected = RejectedRecord(record, error.reason, error.problems)
        outbound = Outbound(None, Topics("demo"))  # type: ignore[arg-type]  # it sends nothing here
        RejectionPublisher(outbound)._records(rejected)
        return
    if isinstance(request, CrawlRequest):
        Patterns(request.allow_regex or ())
        Patterns(request.deny_regex or ())


@pytest.mark.parametrize("name", ALL)
def test_no_record_costs_more_than_its_budget(name: str) -> None:
    """A second of CPU and 100 MiB, whatever it holds."""
    raw = ALL[name]()
    begun = time.process_time()
    judge(raw)
    spent_s = time.process_time() - begun
    assert spent_s < MOST_CPU_S, name
    tracemalloc.start()
    try:
        judge(raw)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_BYTES, name

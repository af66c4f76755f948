"""Whether Redis holds exactly what the model believes: queues, holds, dedupe, caps and ledgers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import unquote

from crawlstream.chaos.frontier_invariants import Dump, strings_of
from support.frontier.bench import KEYS, entry_of
from support.frontier.model import Model
from support.frontier.values import Generation, Item
from support.frontier.world import LEDGER

_HEAD = re.compile(rb"\d+(?:,|;(...))", re.DOTALL)
_ZERO = 33
"""What retries, deaths and reaps are counted from, in one character each."""
Seen = tuple[str, str | None, int, int, int]
"""URL, origin, retries, deaths and reaps of an entry."""


@lru_cache(maxsize=4_096)
def _seen(entry: bytes) -> Seen:
    head = _HEAD.match(entry)
    assert head, entry
    retries, deaths, reaps = (mark - _ZERO for mark in head[1] or b"!!!")
    return *entry_of(entry[head.end() :]), retries, deaths, reaps


def _believed(item: Item) -> Seen:
    return item.url, item.origin, item.retries, item.deaths, item.reaps


def compare(state: Dump, model: Model) -> None:
    """Everything that the model knows of is so in Redis."""
    numbers = dict(_numbers(state, model))
    for number, generation in numbers.items():
        _compare_ledger(state.get(f"x:{number}"), generation)
        if generation.takes_seeds:
            _compare_dedupe(state, number, generation)
    _compare_bands(state, model, numbers)
    _compare_holds(state, model)


def _numbers(state: Dump, model: Model) -> Iterator[tuple[str, Generation]]:
    names = state.get("names")
    for crawl, generation in model.latest.items():
        yield names[KEYS.crawl_field(crawl).encode()].split()[0].decode(), generation


def _compare_ledger(record: dict[bytes, bytes], generation: Generation) -> None:
    fields = {name.decode(): text for name, text in record.items()}
    known = (int(fields["run"]), fields["state"].decode())
    assert known == (generation.run, generation.state), (fields, generation)
    assert fields.get("remember") == _text_of(generation.remember), (fields, generation)
    assert ("paused" in fields) == generation.is_paused, (fields, generation)
    for name in LEDGER:
        assert int(fields.get(name, 0)) == generation.ledger[name], (name, fields)
    filtered = {name[2:]: int(n) for name, n in fields.items() if name[:2] == "z:"}
    assert filtered == +generation.filtered, (fields, generation)


def _text_of(number: int | None) -> bytes | None:
    return None if number is None else str(number).encode()


def _compare_dedupe(state: Dump, number: str, generation: Generation) -> None:
    marked: set[str] = set()
    for letter in "se":
        for (c, *_), fingerprints in state.named(letter):
            if c == number:
                marked.update(map(bytes.decode, fingerprints))
    assert marked == {fingerprint for _, fingerprint in generation.known}, (marked, generation)
    records = state.get(f"k:{number}").items()
    counted = {domain.decode(): int(record.split()[0]) for domain, record in records}
    assert {domain: n for domain, n in counted.items() if n} == +generation.counted, generation


def _compare_bands(state: Dump, model: Model, numbers: dict[str, Generation]) -> None:
    """Every band of a run under way has these entries, in this order."""
    found: dict[tuple[str, str, str], list[Seen]] = {}
    for (spider, tag, *rest), entries in state.named("b"):
        number = tag.split("/")[0]
        if number in numbers and numbers[number].state == "running":
            found[unquote(spider), ":".join(rest), tag] = list(map(_seen, entries))
    number_of = {generation: number for number, generation in numbers.items()}
    believed = defaultdict(list)
    for (spider, domain), bands in model.bands.items():
        for (generation, priority), items in bands.items():
            if items:
                tag = f"{number_of[generation]}/{priority}"
                believed[spider, domain, tag] = list(map(_believed, items))
    assert found == believed, (found, believed)


def _compare_holds(state: Dump, model: Model) -> None:
    """Every worker has these entries in its hands."""
    found = {
        (":".join(worker), token.decode()): _seen(strings_of(packed, 9, 3)[1])
        for worker, texts in state.named("h")
        for token, packed in texts.items()
        if token not in {b"!", b"@"}
    }
    believed = {
        (worker, token): _believed(held.item)
        for worker, holds in model.holds.items()
        for token, held in holds.items()
    }
    assert found == believed, (found, believed)

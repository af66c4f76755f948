"""Compare Redis with the model: queues, leases, dedupe, caps and ledgers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from urllib.parse import unquote

from crawlstream_chaos.laws.invariants import Dump, strings_of
from crawlstream_frontier.codec.chunks import unpack_chunk
from support.frontier.bench import KEYS, entry_of
from support.frontier.model import Model
from support.frontier.values import Generation, Item
from support.frontier.world import LEDGER
from support.scores.hosting import text_of

_HEAD = re.compile(rb"\d+(?:,|;(...)|!(-?\d+)  ,)", re.DOTALL)
_ZERO = 33
"""Character code of zero retries, deaths or reaps."""
Seen = tuple[str, str | None, int, int, int, int, str | None]
"""URL, origin, depth, retries, deaths, reaps and mark of an entry."""
_ANY: Seen = ("", None, 0, 0, 0, 0, None)
"""Entry of a lost page, which may have been any."""


@lru_cache(maxsize=4_096)
def _seen(entry: bytes) -> Seen:
    head = _HEAD.match(entry)
    assert head, entry
    retries, deaths, reaps = (mark - _ZERO for mark in head[1] or b"!!!")
    mark = head[2].decode() if head[2] else None
    return *entry_of(entry[head.end() :]), retries, deaths, reaps, mark


def _believed(item: Item) -> Seen:
    marks = item.retries, item.deaths, item.reaps
    return item.url, item.origin, item.depth, *marks, item.mark


def compare(state: Dump, model: Model, shelf: Mapping[str, bytes]) -> dict[Generation, str]:
    """Everything that the model knows of is so in Redis, and on the shelf, as far as that has it.

    Answers the number of each crawl.
    """
    numbers = dict(_numbers(state, model))
    for number, generation in numbers.items():
        _compare_ledger(state.get(f"x:{number}"), generation)
        _compare_used(state.values.get(f"used:{number}", {}), generation)
        if generation.state == "running":
            _compare_listed(state, number, generation)
        if generation.takes_seeds:
            _compare_dedupe(state, number, generation)
            _compare_hosts(state, number, generation)
    _compare_bands(state, model, numbers, shelf)
    _compare_holds(state, model)
    return {generation: number for number, generation in numbers.items()}


def _numbers(state: Dump, model: Model) -> Iterator[tuple[str, Generation]]:
    names = state.get("names")
    for crawl, generation in model.latest.items():
        yield names[KEYS.crawl_field(crawl).encode()].split()[0].decode(), generation


def _compare_ledger(record: dict[bytes, bytes], generation: Generation) -> None:
    fields = {name.decode(): text for name, text in record.items()}
    known = (int(fields["run"]), fields["state"].decode())
    assert known == (generation.run, generation.state), (fields, generation)
    assert fields.get("remember") == _text_of(generation.remember), (fields, generation)
    assert fields.get("occasion", b"").decode() == (generation.occasion or ""), (fields, generation)
    assert ("paused" in fields) == generation.is_paused, (fields, generation)
    for name in (*LEDGER, "bytes"):
        assert int(fields.get(name, 0)) == generation.ledger[name], (name, fields)
    filtered = {name[2:]: int(n) for name, n in fields.items() if name[:2] == "z:"}
    assert filtered == +generation.filtered, (fields, generation)
    skipped = {name[2:]: int(n) for name, n in fields.items() if name[:2] == "k:"}
    assert skipped == generation.skipped, (fields, generation)
    bodies = {name: int(n) for name, n in fields.items() if name[:2] in {"d:", "r:"}}
    assert bodies == generation.bodies, (fields, generation)


def _compare_used(found: Mapping[bytes, bytes], generation: Generation) -> None:
    """Redis keeps the use of domains until the run ends, or is swept."""
    texts = {
        domain: " ".join(map(str, used)) + " domain_max_bytes" * (domain in generation.spent)
        for domain, used in generation.used.items()
    }
    if generation.state == "running" or (found and generation.takes_seeds):
        assert {k.decode(): text.decode() for k, text in found.items()} == texts, generation


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


def _compare_hosts(state: Dump, number: str, generation: Generation) -> None:
    """Trusted domains that link to a domain, and its pages in their own bands."""
    records = state.get(f"k:{number}").items()
    texts = {domain.decode(): record.decode().split()[3:] for domain, record in records}
    found = {domain: text[0].partition(",")[0] for domain, text in texts.items() if text}
    believed = {domain: text_of(host) for domain, host in generation.hosts.items()}
    assert {domain: text for domain, text in found.items() if text} == believed, generation


def _compare_listed(state: Dump, number: str, generation: Generation) -> None:
    """Pages that wait: depth, whether they have several entries, links, and another spider."""
    listed = {
        (":".join(domain), fingerprint.decode()): value.decode()
        for (c, *domain), pages in state.named("i")
        if c == number
        for fingerprint, value in pages.items()
    }
    believed = {
        page: f"{8 * seen.depth + 4 * seen.has_several + seen.links}{seen.spider}"
        for page, seen in generation.listed.items()
    }
    assert listed == believed, (listed, generation)


def _compare_bands(
    state: Dump, model: Model, numbers: dict[str, Generation], shelf: Mapping[str, bytes]
) -> None:
    """Assert that the bands of running crawls have these entries in this order."""
    found: dict[tuple[str, str, str], list[Seen]] = {}
    names = {":".join(parts) for letter in ("b", "bc", "bt") for parts, _ in state.named(letter)}
    model.heads.clear()
    for name in names:
        spider, tag, domain = name.split(":", 2)
        number, _, level = tag.partition("/")
        if number in numbers and numbers[number].state == "running":
            queue = unquote(spider), domain, tag
            kept = _entries_of(name, state, shelf)
            found[queue] = [_ANY if entry is None else _seen(entry) for entry in kept]
            if f"bc:{name}" in state.values:
                head = len(state.values.get(f"b:{name}", ()))
                model.heads[queue[0], domain, numbers[number], int(level)] = head
    number_of = {generation: number for number, generation in numbers.items()}
    believed = defaultdict(list)
    for (spider, domain), queues in model.queues.items():
        for (generation, priority), items in queues.items():
            if items:
                tag = f"{number_of[generation]}/{priority}"
                believed[spider, domain, tag] = list(map(_believed, items))
    assert set(found) == set(believed), (found, believed)
    for place, entries in found.items():
        pairs = zip(entries, believed[place], strict=False)
        is_same = len(entries) == len(believed[place])
        assert is_same, (place, found, believed)
        assert all(one in (two, _ANY) for one, two in pairs), (place, found, believed)


def _entries_of(name: str, state: Dump, shelf: Mapping[str, bytes]) -> Iterator[bytes | None]:
    """The entries of a band: its head, its chunks, its tail; None for each that is lost."""
    yield from state.values.get(f"b:{name}", ())
    for text in state.values.get(f"bc:{name}", ()):
        id_, amount, place = text.split()
        kept = (
            state.values.get(f"chunk:{id_.decode()}") if place == b"i" else shelf.get(id_.decode())
        )
        entries = unpack_chunk(id_, kept) if kept else [None] * int(amount)
        assert len(entries) == int(amount)
        yield from entries
    yield from state.values.get(f"bt:{name}", ())


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
        for worker, leases in model.leases.items()
        for token, held in leases.items()
    }
    assert found == believed, (found, believed)

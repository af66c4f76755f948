"""Invariants of the frontier between any two calls, checked by reading every key of it."""

from __future__ import annotations

import re
import struct
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import msgpack  # type: ignore[import-untyped]
from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream.model.statuses import PAGE_ENDS

_DUMP = """
local found = {}
for _, key in ipairs(redis.call('KEYS', KEYS[1] .. '*')) do
  local type = redis.call('TYPE', key).ok
  local value
  if type == 'string' then value = redis.call('GET', key)
  elseif type == 'hash' then value = redis.call('HGETALL', key)
  elseif type == 'list' then value = redis.call('LRANGE', key, 0, -1)
  elseif type == 'set' then value = redis.call('SMEMBERS', key)
  elseif type == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  else value = redis.call('XLEN', key) end
  found[#found + 1] = { key, type, value, redis.call('PTTL', key) }
end
return cmsgpack.pack(found)
"""
_SEVERAL = 4
"""Bit in the value of a page that waits with several entries; see ``inlinks.lua``."""
_LISTED = re.compile(rb"[0-9]+!(-?[0-9]+) [^ ]* ,")
"""Beginning of an entry of which there may be a copy."""
_HEAD = struct.Struct("<IIdIB")


class Dump:
    """All keys of a frontier, without prefix, as Python values."""

    def __init__(self, found: list[list[Any]], tag: str) -> None:
        self.values: dict[str, Any] = {}
        self.ttls: dict[str, int] = {}
        self._by_letter: dict[str, list[tuple[list[str], Any]]] = defaultdict(list)
        for key, type_, value, ttl in found:
            name = key.decode().removeprefix(tag)
            if type_ in {b"hash", b"zset"}:
                pairs = zip(value[::2], value[1::2], strict=True)
                self.values[name] = {k: v for k, v in pairs if k.strip(b"#")}  # without padding
            else:
                self.values[name] = value
            self.ttls[name] = ttl
            first, _, rest = name.partition(":")
            if rest:
                self._by_letter[first].append((rest.split(":"), self.values[name]))

    def get(self, name: str) -> Any:
        """A hash or zset as a dict, empty if it is not there."""
        return self.values.get(name, {})

    def named(self, letter: str) -> list[tuple[list[str], Any]]:
        """Keys ``<letter>:…``: the rest of the name split at colons, and the value."""
        return self._by_letter.get(letter, [])


def _require(holds: object, *what: object) -> None:
    if not holds:
        raise AssertionError(*what)


async def dump(redis: Redis, keys: FrontierKeys) -> Dump:
    """Everything that a frontier, or one partition of it, has in Redis."""
    packed = await redis.eval(_DUMP, 1, keys.tag)
    return Dump(msgpack.unpackb(packed, raw=True, strict_map_key=False), keys.tag)


async def check(redis: Redis, keys: FrontierKeys | None = None) -> Dump:
    """Check every invariant; the dump is given back for further questions.

    ``keys`` are those of one partition among several; None: of a frontier with one.

    Raises AssertionError where one does not hold, also of a Python that leaves asserts out.
    """
    state = await dump(redis, keys or FrontierKeys())
    _check_ledger(state)
    for (spider,), index in state.named("o"):
        if _is_by_group(state):
            _check_views(state, spider, index)
        else:
            _check_indexes(state, spider, index)
    _check_queues(state)
    _check_parts(state)
    _check_throttle(state)
    _check_pauses(state)
    _check_delayed(state)
    _check_owners(state)
    _check_promotions(state)
    return state


def strings_of(packed: bytes, at: int, count: int) -> tuple[list[str], bytes]:
    """Texts with their lengths before them, and what follows."""
    strings = []
    for _ in range(count):
        (length,) = struct.unpack_from("<H", packed, at)
        strings.append(packed[at + 2 : at + 2 + length].decode())
        at += 2 + length
    return strings, packed[at:]


def _leases(state: Dump) -> Iterator[tuple[int, str, str]]:
    """Flags, crawl number and name of the state of every lease, for the domain and its gate."""
    scope = state.get("m").get(b"scope", b"").split()
    for _, texts in state.named("h"):
        for token, packed in texts.items():
            if token not in {b"!", b"@"}:
                (tag, view, domain), _ = strings_of(packed, 9, 3)
                spider, at, group = view.partition("@")
                kept_for = (spider if b"type" in scope else "") + (at + group)
                domain, has_gate, gate = domain.partition("=")
                for name in (domain, *([has_gate + gate] if has_gate else [])):
                    yield packed[8], tag.split("/")[0], f"{name} {kept_for}" if scope else name


def _is_running(state: Dump, c: str) -> bool:
    return bool(state.get(f"x:{c}").get(b"state") == b"running")


def _check_ledger(state: Dump) -> None:
    held = Counter(c for _, c, name in _leases(state) if not name.startswith("="))
    queued: Counter[str] = Counter()
    delayed: Counter[str] = Counter()
    for (_, tag, *_), entries in (*state.named("b"), *state.named("bt")):
        queued[tag.split("/")[0]] += len(entries)
    shelved = _shelved(state)
    queued.update(shelved)
    for parts, entries in state.named("y"):
        if len(parts) == 2:
            delayed[parts[1]] += len(entries)
    spilled = {
        c: sum(int(text.split()[0]) for text in names.values())
        for (c,), names in state.named("spills")
    }
    totals: Counter[str] = Counter()
    for (c,), fields in state.named("x"):
        ledger = {name.decode(): value for name, value in fields.items()}
        counts = defaultdict(int, {k: int(v) for k, v in ledger.items() if v.isdigit()})
        ended = sum(map(counts.__getitem__, PAGE_ENDS))
        waiting = counts["queued"] + counts["delayed"] + counts["held"] + counts["spilled"]
        _require(counts["admitted"] == ended + waiting, c, ledger)
        _require(counts["held"] == held[c], c, ledger, held)
        _require(counts["shelved"] == (shelved[c] if _is_running(state, c) else 0), c, ledger)
        _require(counts["spilled"] == spilled.get(c, 0), c, ledger, spilled)
        if _is_running(state, c):
            _require((counts["queued"], counts["delayed"]) == (queued[c], delayed[c]), c, ledger)
            is_idle = c.encode() in state.get("idle")
            # A run with a label is ended by its coordinator, and may not be noted as idle any more.
            is_noted = is_idle == (waiting == 0) or ("label" in ledger and not is_idle)
            _require("paused" in ledger or is_noted, c, ledger)
            totals["running"] += 1
        else:
            _require(counts["queued"] == counts["delayed"] == 0, c, ledger)
        for name in ("queued", "shelved", "delayed", "held", "spilled"):
            totals[name] += counts[name]
    for name, value in state.get("totals").items():
        _require(int(value) == totals[name.decode()], name, value, totals)


def _check_pauses(state: Dump) -> None:
    """Check that each pause with an end belongs to a running run that is paused until then."""
    until = {
        c.encode(): fields[b"paused_until"]
        for (c,), fields in state.named("x")
        if b"paused_until" in fields
    }
    _require(until == state.get("pauses"), until, state.get("pauses"))
    for c in until:
        _require(_is_running(state, c.decode()) and b"paused" in state.get(f"x:{c.decode()}"), c)


def _check_indexes(state: Dump, spider: str, index: dict[bytes, bytes]) -> None:
    """A domain with work is in exactly one index or gate; one without is in none."""
    places = Counter(_places(state, spider))
    _require(places == Counter(list(index)), spider, places, index)
    for domain, tag in index.items():
        several = state.get(f"q:{spider}:{domain.decode()}")
        _require((tag == b"*") == (len(several) > 1), domain, tag, several)
        _require(not several or tag == b"*")


def _places(state: Dump, view: str) -> Iterator[bytes]:
    """Yield the domains in the indexes of a view, and those in its gates, which are in an index."""
    members = [name for letter in "wrp" for name in state.get(f"{letter}:{view}")]
    gates = [name for name in members if name.startswith(b"=")]
    yield from (name for name in members if not name.startswith(b"="))
    full = {
        ":".join(gate).encode(): domains for (of, *gate), domains in state.named("a") if of == view
    }
    _require(sorted(gates) == sorted(full) == sorted(state.get(f"gates:{view}")), gates, full)
    for domains in full.values():
        yield from domains


def _waits_for_a_run(state: Dump, c: str) -> bool:
    """Return whether a partition works for no run of a crawl: its remains cannot be found."""
    ledger = state.get(f"x:{c}")
    return b"label" in ledger and ledger[b"run"] == b"0"


def _is_by_group(state: Dump) -> bool:
    return b"group" in state.get("m").get(b"scope", b"")


def _check_views(state: Dump, spider: str, index: dict[bytes, bytes]) -> None:
    """A domain with work is in some index of every view that has been filled."""
    for view in state.get(f"views:{spider}"):
        if view not in state.get("revise"):
            name = view.decode()
            seen = set(_places(state, name))
            _require(seen >= set(index), view, seen, index)


def _check_queues(state: Dump) -> None:
    """Every band of a run that takes part can be found from its domain."""
    for (spider, tag, *rest), _ in (*state.named("b"), *_tails_of_nothing(state)):
        domain, c = ":".join(rest), tag.split("/")[0]
        if not _is_running(state, c):
            _require(c.encode() in state.get("sweep"), spider, tag, domain)
            continue
        if 0 < int(state.get(f"x:{c}").get(b"expires", 0)) < time.time():
            continue
        if float(state.get("expiry").get(c.encode(), 1)) == 0:
            continue  # An operation has found that it is over.
        if b"paused" in state.get(f"x:{c}") or c.encode() in state.get("revisit"):
            continue
        if _waits_for_a_run(state, c):
            continue
        known = state.get(f"o:{spider}").get(domain.encode())
        tags = {known, *state.get(f"q:{spider}:{domain}")}
        _require(tag.encode() in tags, spider, domain, tag, tags)
        _require(spider.encode() in state.get("spiders"))


def _shelved(state: Dump) -> Counter[str]:
    """Entries on the shelf by crawl number, as the lists of chunks say."""
    shelved: Counter[str] = Counter()
    for (_, tag, *_), chunks in state.named("bc"):
        shelved[tag.split("/")[0]] += sum(int(chunk.split()[1]) for chunk in chunks)
    return shelved


def _tails_of_nothing(state: Dump) -> Iterator[tuple[list[str], Any]]:
    """Tails without a head or chunks before them: they are next."""
    for parts, entries in state.named("bt"):
        name = ":".join(parts)
        if f"b:{name}" not in state.values and f"bc:{name}" not in state.values:
            yield parts, entries


def _check_parts(state: Dump) -> None:
    """Check the notes of bands in parts; a band without its next entries is to be restocked."""
    noted = dict(_noted_parts(state))
    flagged = {c for (c,), fields in state.named("x") if b"parts" in fields}
    _require(flagged == {c for (c,), _ in state.named("parts")}, flagged)
    for name in (":".join(parts) for letter in ("bc", "bt") for parts, _ in state.named(letter)):
        spider, tag, domain = name.split(":", 2)
        if not _is_running(state, tag.split("/")[0]):
            continue
        chunks = state.values.get(f"bc:{name}", [])
        _require(noted.get(name) == sum(int(one.split()[1]) for one in chunks), name, noted)
        if chunks and f"b:{name}" not in state.values:
            _require(f"{spider} {tag} {domain}".encode() in state.get("restock"), name)
        for id_, _, place in map(bytes.split, chunks):
            _require((f"chunk:{id_.decode()}" in state.values) == (place == b"i"), name, id_)


def _noted_parts(state: Dump) -> Iterator[tuple[str, int]]:
    """Bands in parts, and how many of their entries are on the shelf, as it is noted."""
    for (c,), domains in state.named("parts"):
        for domain, text in domains.items():
            for part in text.decode().split():
                queue, _, amount = part.partition("=")
                spider, _, priority = queue.partition("/")
                yield f"{spider}:{c}/{priority}:{domain.decode()}", int(amount)


def _check_throttle(state: Dump) -> None:
    """Check that the unreported and in-flight counts of a domain match its leases."""
    unreported = Counter(domain for flags, _, domain in _leases(state) if flags == 0)
    concurrent = Counter(domain for flags, _, domain in _leases(state) if flags < 2)
    with_work = {domain for _, index in state.named("o") for domain in index}
    with_work |= {key.split()[0].encode() for _, _, key in _leases(state) if key}
    for domain, packed in state.get("t").items():
        head = _HEAD.unpack_from(packed)
        _require(head[0] == unreported.pop(domain.decode(), 0), domain, head)
        _require(head[1] == concurrent.pop(domain.decode(), 0), domain, head)
        _require((len(packed) - _HEAD.size) // 12 <= 200, domain)
        _require(domain.split()[0] in with_work or domain in state.get("v"), domain)
    _require(not unreported)
    _require(not concurrent)


def _check_promotions(state: Dump) -> None:
    """Check that pages that are listed as waiting have an entry, or several if they say so.

    Entries on the shelf cannot be read here, and may be lost.
    """
    if int(state.get("m").get(b"shelve_at", 0)):
        return
    entries: defaultdict[str, Counter[bytes]] = defaultdict(Counter)
    for (_, tag, *_), texts in (*state.named("b"), *state.named("bt")):
        marked = (_LISTED.match(text) for text in texts)
        entries[tag.split("/")[0]].update(found[1] for found in marked if found)
    for (c, *domain), listed in state.named("i"):
        for one, value in listed.items() if _is_running(state, c) else ():
            has_several = int(value.split()[0]) & _SEVERAL > 0
            _require(entries[c][one] >= 1 + has_several, c, domain, one, value, entries[c])


def _check_delayed(state: Dump) -> None:
    for parts, entries in state.named("y"):
        if len(parts) == 2:
            first = state.get(f"y:{parts[0]}").get(parts[1].encode())
            _require(first is not None, parts)
            _require(float(first) == min(map(float, entries.values())), parts, first, entries)
        else:
            _require(all(f"y:{parts[0]}:{c.decode()}" in state.values for c in entries))


def _check_owners(state: Dump) -> None:
    """Check that every key has an owner that will remove it."""
    numbers = {c for (c,), _ in state.named("x")}
    running = {c.encode() for c in numbers if _is_running(state, c)}
    swept = {name.decode().replace(" ", ":") for name in state.get("abandoned_chunks")}
    for parts, _ in state.named("bc"):
        is_over = not _is_running(state, parts[1].split("/")[0])
        in_sweep = parts[1].split("/")[0].encode() in state.get("sweep")
        _require(not is_over or in_sweep or ":".join(parts) in swept, parts)
    for of_run in ("shifts", "revisit", "stalled", "abandon"):
        _require(set(state.get(of_run)) <= running, of_run)
    for letter in (*"kfsei", "spills", "parts"):
        owners = {parts[0] for parts, _ in state.named(letter)}
        _require(owners <= numbers, letter)
    for c in numbers:
        fields = state.get(f"x:{c}")
        is_over = fields[b"state"] in {b"finished", b"stopped", b"expired"}
        _require((c.encode() in state.get("forget")) == is_over, c, fields)
    workers = {worker.decode() for worker in state.get("workers")}
    for letter in ("h", "recalled"):
        _require({":".join(parts) for parts, _ in state.named(letter)} <= workers)
    for _, asleep in state.named("z"):
        _require({worker.decode() for worker in asleep} <= workers)
    _require(all(state.ttls[name] > 0 for name in state.values if name.startswith("stop:")))

"""Bugs on purpose: random lives find each of them, so that they would find one like it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest

from crawlstream_chaos.processes import RunningServer
from support.frontier.lua import planted
from support.frontier.machine import run_machine
from support.frontier.witness import Witness
from support.frontier.world import World

SEEDS = 1000
"""Most need five, and those that need more begin near the life that finds them. A change of the
Lua or the lives moves that one, and the search takes longer until ``first`` is set again."""
STEPS = 20
FROZEN = 60
"""From this life on monitors are frozen soon, while something is on its way to the shelf."""


class Bug(NamedTuple):
    """Text in exactly one place of the Lua, and its replacement."""

    right: str
    wrong: str
    first: int = 0
    """The first of the lives that are to find it."""
    world: Callable[[Random], World] = World.some


BUGS = {
    "an end is not fenced by its token": Bug(
        right="redis.call('HDEL', K.holds(worker), unpack(ended))",
        wrong="redis.call('HLEN', K.holds(worker))",
    ),
    "a page is complete without its children": Bug(
        right="local _, refusal = admit_children(c, links,",
        wrong="local _, refusal = admit_children(c, {},",
    ),
    "time is what Redis' clock says": Bug(
        right="math.max(math.min(passed, borne or 0), 0)",
        wrong="passed",
    ),
    "time is what Redis' clock says, if that goes on": Bug(
        right="math.max(math.min(passed, borne or 0), 0)",
        wrong="math.max(passed, 0)",
    ),
    "who calls for the first time brings time along": Bug(
        right="math.min(passed, borne or 0)",
        wrong="math.min(passed, borne or passed)",
    ),
    "links are marked as known before a cap refuses them": Bug(
        right="count(c, 'z:' .. reason, n - room)",
        wrong="mark(c, domain, record, list, marks, n)\n      count(c, 'z:' .. reason, n - room)",
    ),
    "a domain that has spent its budget takes links": Bug(
        right="records[domain].spent = spent[domain]",
        wrong="records[domain].spent = nil",
        first=140,
    ),
    "leases do not name the spent budget of their domain": Bug(
        right="watched[(n + 1) / 2], spent, gentle = granted_lots[n], {}, gentle or {}",
        wrong="spent, gentle = {}, gentle or {}",
    ),
    "a page is granted by each of its entries": Bug(
        right="value and redis.call('HDEL', key, fingerprint) and promotion()",
        wrong="value and promotion()",
        first=6,
        world=World.linked,
    ),
    "an entry that comes back may be dropped": Bug(
        right="and promotion().unmarked(number, value, body)",
        wrong="and entry",
        world=World.linked,
    ),
    "a page moves at its second link": Bug(
        right="(is_third or links == PROMOTED_BY - 1)",
        wrong="(is_third or links == PROMOTED_BY - 2)",
        first=5,
        world=World.linked,
    ),
    "a page moves again at its fourth link": Bug(
        right="local rises = not was_promoted and terms.linked.weight > 0 and (",
        wrong="local rises = was_promoted or (",
        first=6,
        world=World.linked,
    ),
    "links of its own domain move it before others": Bug(
        right="is_within(terms.from, domain) and PROMOTED_WITHIN or PROMOTED",
        wrong="PROMOTED",
        first=6,
        world=World.linked,
    ),
    "a domain ranks by its promoted page": Bug(
        right="return has_scored and standing_of_band - promoted_within(tag) or standing_of_band",
        wrong="return standing_of_band",
        first=6,
        world=World.linked,
    ),
    "a domain has no more room for the pages that wait lower": Bug(
        right="local entries = left > 0 and not shelf_notes().get(S, tag, at)",
        wrong="local entries = left > 1 and not shelf_notes().get(S, tag, at)",
        first=995,
        world=World.hosted,
    ),
    "one link of a trusted domain is enough": Bug(
        right="bits.number(host.bits) >= TWO",
        wrong="bits.number(host.bits) > 0",
        world=World.hosted,
    ),
    "a domain without trusted links has room": Bug(
        right="local has_any = links > 0 or host.is_of_seed",
        wrong="local has_any = true",
        world=World.hosted,
    ),
    "what domains have used outlives the run": Bug(
        right="if crawl.used then\n    redis.call('UNLINK', K.used(c))",
        wrong="if crawl.used then\n    redis.call('EXISTS', K.used(c))",
    ),
    "a reaped worker's tokens stay good": Bug(
        right="redis.call('DEL', K.holds(worker), K.recalled(worker))",
        wrong="redis.call('DEL', K.recalled(worker))",
    ),
    "a run ends as soon as it is idle": Bug(
        right="due_in(K.idle, now - grace_ms)",
        wrong="due_in(K.idle, now)",
        first=43,
    ),
    "what is given back goes to the end of its band": Bug(
        right="put_back(hold, entry_of(hold), priority or hold.lot.priority, in_front, delay_ms)",
        wrong="put_back(hold, entry_of(hold), priority or hold.lot.priority, false, delay_ms)",
    ),
    "what is handed over to another spider comes back to its own": Bug(
        right="hold.spider or lot.spider",
        wrong="lot.spider",
    ),
    "what a dead worker held comes back in another order": Bug(
        right="table.sort(holds, is_newer)",
        wrong="table.sort(holds, function(a, b) return is_newer(b, a) end)",
        first=11,
    ),
    "a retry is not counted": Bug(
        right="with_marks(entry, retries + 1, deaths, reaps)",
        wrong="with_marks(entry, retries, deaths, reaps)",
    ),
    "a request that nobody reported was none": Bug(
        right="local at = not is_unsent and (sent_ms and hold.since + sent_ms or now)",
        wrong="local at = not is_unsent and sent_ms and hold.since + sent_ms",
    ),
    "a restart forgets what was sent": Bug(
        right="m[1] and now or NEVER",
        wrong="NEVER",
        first=35,
    ),
    "a repeated call grants anew": Bug(
        right="is_repeated = call <= tonumber(",
        wrong="is_repeated = call < tonumber(",
    ),
    "records take effect again": Bug(
        right="return offset >= position or kind == 'seed'",
        wrong="return true or kind == 'seed'",
    ),
    "spilled links come back twice": Bug(
        right="redis.call('SADD', K.recalled(worker), name) == 1",
        wrong="redis.call('SADD', K.recalled(worker), name)",
        first=279,
    ),
    "spilled links are not admitted": Bug(
        right="count(c, 'admitted', links)\n        count(c, 'spilled', links)",
        wrong="count(c, 'spilled', links)",
    ),
    "children enter an ended run": Bug(
        right="  if is_open(c) then\n    return admit(",
        wrong="  if true then\n    return admit(",
    ),
    "a stop is for its own partition only": Bug(
        right="return stop.at > timestamp",
        wrong="return false",
    ),
    "a refusal is told to the first who asks": Bug(
        right="if untold[i] >= start then",
        wrong="if false then",
    ),
    "a refusal is told for ever": Bug(
        right="if untold[i] >= start then",
        wrong="if true then",
    ),
    "a stop takes what was written after it, elsewhere": Bug(
        right="owe_again(first_seeds(record.c), name, topic, place, timestamp, K.positions)",
        wrong="assert(owe_again)",
    ),
    "all seeds of other partitions survive a late stop": Bug(
        right="one[NAME] == name and one[AFTER] < timestamp and",
        wrong="one[NAME] == name and",
        first=174,
    ),
    "the dead page is another one": Bug(
        right="take_back(hold, hold.token == blamed and 1 or 0, 'killed_worker')",
        wrong="take_back(hold, 1, 'killed_worker')",
        first=31,
    ),
    "what its worker has for too long is not marked": Bug(
        right="take_back(hold, 0, 'hold_timeout')",
        wrong="end_hold(hold)\n    put_back(hold, hold.entry, hold.lot.priority, true, 0)",
        first=27,
    ),
    "a page may be held for ever": Bug(
        right=" or age > max_hold_ms then",
        wrong=" then",
        first=33,
    ),
    "lost links are nowhere": Bug(
        right="count(c, 'failed', links)\n      count(c, 'f:spill_lost', links)",
        wrong="count(c, 'f:spill_lost', links)",
        first=142,
    ),
    "of the domains that a scan has found one is visited": Bug(
        right="redis.call('RPUSH', list, unpack(names))",
        wrong="redis.call('RPUSH', list, names[1])",
        first=36,
    ),
    "one band of a domain is swept": Bug(
        right="    at = last + 1",
        wrong="    at = #bands + 1",
    ),
    "a crawl remembers as long as the operator says, whatever its seeds say": Bug(
        right="return remember and remember * 1000 or dedupe_ms",
        wrong="return dedupe_ms",
    ),
    "the seed that was read last says how long is remembered": Bug(
        right="if is_latest(c, 'remember_by', of[2]) then",
        wrong="if true then",
    ),
    "a run is of the occasion that came last": Bug(
        right="if time_of(occasion) > time_of(crawl.occasion) then\n      redis",
        wrong="if true then\n      redis",
    ),
    "a pause has no end": Bug(
        right="due_in(K.pauses, math.floor(wall / 1000))",
        wrong="due_in(K.pauses, 0)",
    ),
    "a pause ends before its time": Bug(
        right="due_in(K.pauses, math.floor(wall / 1000))",
        wrong="due_in(K.pauses, FOREVER)",
        first=11,
    ),
    "the end of a former pause stays": Bug(
        right="redis.call('ZREM', K.pauses, c)\n  crawl_of(c).paused = nil",
        wrong="crawl_of(c).paused = nil",
    ),
    "a paused domain is asked": Bug(
        right="if rule.paused_until > wall then",
        wrong="if false then",
    ),
    "what leaves memory is not what was written": Bug(
        right="return #entries == amount and digest_of(entries) == digest",
        wrong="return #entries == amount",
        first=FROZEN,
    ),
    "a chunk is cut off at the other end": Bug(
        right="int(is_tail and amount or 0), int(is_tail and -1 or -amount - 1)",
        wrong="int(amount), -1",
        first=FROZEN,
    ),
    "chunks of the head come after those of the tail": Bug(
        right="redis.call(is_tail and 'RPUSH' or 'LPUSH', K.chunks(S, tag, domain),",
        wrong="redis.call('RPUSH', K.chunks(S, tag, domain),",
        first=FROZEN,
    ),
    "a band that was restocked is not found": Bug(
        right=(
            "    index_band(S, domain, tag, priority)\n  end\n  if redis.call('HEXISTS', K.abandon"
        ),
        wrong="    assert(priority)\n  end\n  if redis.call('HEXISTS', K.abandon",
        first=FROZEN,
    ),
    "new links go before those on the shelf": Bug(
        right="if crawl_of(c).parts and append_to_tail(kind.spider,",
        wrong="if false and append_to_tail(kind.spider,",
        first=FROZEN,
    ),
    "a band without a head is over": Bug(
        right="if is_out and redis.call('LLEN'",
        wrong="if false and redis.call('LLEN'",
        first=FROZEN,
    ),
    "the tail is forgotten": Bug(
        right="redis.call('RENAME', K.tail(S, tag, domain), K.band(S, tag, domain))",
        wrong="redis.call('EXISTS', K.band(S, tag, domain))",
        first=FROZEN,
    ),
    "what was handed out is not remembered": Bug(
        right="redis.call('ZADD', K.discarded, int(now + TO_WRITE_MS + REMEMBER_MS), id)",
        wrong="assert(TO_WRITE_MS)",
        first=FROZEN,
    ),
    "swept chunks stay": Bug(
        right="redis.call('SADD', K.abandoned_chunks,",
        wrong="assert(K.abandoned_chunks,",
        first=FROZEN,
    ),
    "a spare lease uses the rule": Bug(
        right="hold_head(now, lot, SPARE)",
        wrong="hold_head(now, lot, 0)",
    ),
    "a spare page of a dead worker is marked": Bug(
        right="if hold.flags == SPARE then",
        wrong="if false then",
        first=232,
    ),
    "grants use nothing of a gate": Bug(
        right="grant(gate.state, gate.granted, gate.left)",
        wrong="assert(gate.granted)",
    ),
    "a request is not counted at its gate": Bug(
        right="report_request(hold.gate.state, true, hold.since + sent_ms)",
        wrong="assert(hold.gate)",
    ),
    "domains wait in the gate of a former table": Bug(
        right="if is_moved or is_changed[gate] then",
        wrong="if is_moved then",
        first=113,
    ),
    "a domain has no gate by its address": Bug(
        right="redis.call('HSET', K.located, domain, gate)",
        wrong="assert(gate)",
    ),
    "no cap on what waits": Bug(
        right="return math.max(room, 0), reason",
        wrong="return math.max(room, 1), reason",
    ),
}


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
async def test_random_lives_find_the_bug(bug: Bug, redis_server: RunningServer) -> None:
    """Finds the bug by at least one of a few seeds."""
    with planted(bug.right, bug.wrong):
        async with Witness(redis_server.port, 1) as redis:
            for seed in range(bug.first, bug.first + SEEDS):
                try:
                    await run_machine(redis, seed, STEPS, bug.world)
                except AssertionError:
                    return
    raise AssertionError(f"{SEEDS} random lives have not found it")

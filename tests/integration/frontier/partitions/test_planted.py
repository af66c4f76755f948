"""Bugs on purpose in the scripts of partitions: walks through the model find each of them.

What they find too seldom has tests of its own, in `test_scripts.py` and `test_runs.py`.
"""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from support.partitions.planting import WalkBug, is_found
from support.partitions.traces import replay_walk

WALKS = 300
"""Most need a few. A change of scripts or walks moves the one that finds a bug, and the search
takes longer until ``first`` is set again."""

pytest_plugins = ("support.frontier.fixtures",)


BUGS = {
    "links come without the version of their page": WalkBug(
        right="  raise_hint(c, version_life, version_number)\n  load_domain_records(",
        wrong="  load_domain_records(",
        first=1,
    ),
    "seeds come without a version": WalkBug(
        right="  raise_hint(c, version_life, version_number)\n  local entry",
        wrong="  local entry",
    ),
    "what a page needs others to read is forgotten": WalkBug(
        right="home_waits().raise_need(c, need)",
        wrong="assert(need)",
        first=1,
    ),
    "a need is lowered": WalkBug(
        right="if offset > known[q] then",
        wrong="if true then",
        first=54,
    ),
    "a look does not see what is in flight": WalkBug(
        right="or ledger[i] == 'delayed' or ledger[i] == 'held'",
        wrong="or ledger[i] == 'delayed'",
    ),
    "a label counts that was asked for in another life": WalkBug(
        right="(asked_in == life or asked_in == 0)",
        wrong="asked_in",
        first=19,
    ),
    "an old label counts": WalkBug(
        right="elseif standings().is_before(version_life, version_number, context.known",
        wrong="elseif false and standings().is_before(version_life, version_number, context.known",
        first=3,
    ),
    "a label of another life is as good": WalkBug(
        right="return context.confirmed ~= life or context.wants",
        wrong="return context.wants",
    ),
    "a label is good whatever pages have come since": WalkBug(
        right="or of.is_before(context.known_life, context.known_number, context.hint",
        wrong="or false and of.is_before(context.known_life, context.known_number, context.hint",
        first=28,
    ),
    "an ended run goes on": WalkBug(
        right="return crawl.run ~= '0' and not of.is_unconfirmed(",
        wrong="return not of.is_unconfirmed(",
    ),
    "seeds of an ended run are enrolled again": WalkBug(
        right="    if offset < (crawl.over[place] or 0) and not is_again then",
        wrong="    if false then",
        first=8,
    ),
    "a seed opens no run": WalkBug(
        right="crawl.run, crawl.is_open, crawl.is_bare = crawl.run + 1, true, nil",
        wrong="crawl.run = crawl.run + 1",
    ),
    "a change makes no version": WalkBug(
        right="crawl.number, crawl.is_new = crawl.number + 1, nil",
        wrong="crawl.is_new = nil",
    ),
    "a stop takes effect before Kafka has it": WalkBug(
        right="if not is_noted(crawl, record[10]) then",
        wrong="if false then",
        first=6,
    ),
    "a stop that was forgotten is not restored": WalkBug(
        right="  if generation <= crawl.g then\n",
        wrong="  if true then\n",
        first=17,
    ),
    "an ending that was forgotten is not restored": WalkBug(
        right="if generation == crawl.g and (run > crawl.run or",
        wrong="if false and (run > crawl.run or",
        first=14,
    ),
    "a coordinator answers before it was restored": WalkBug(
        right="return redis.call('HGET', K.meta, 'restored') == int(life)",
        wrong="return true",
        first=4,
    ),
    "endings are told to the coordinator's own partition only": WalkBug(
        right="for partition = 0, amount_of_partitions() - 1 do",
        wrong="for partition = 0, 0 do",
    ),
    "a partition forgets how far it has read": WalkBug(
        right="place, int(math.max(position, next_offset)))\nsave_domain_records()",
        wrong="place, int(position))\nsave_domain_records()",
        first=1,
    ),
}


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
async def test_a_bug_is_found(redis: Redis, bug: WalkBug) -> None:
    """Some walk comes to something else than the model."""
    assert await is_found(bug, lambda chance: replay_walk(redis, chance, ""), WALKS)

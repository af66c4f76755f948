"""Steps of the model of page limits, replayed on the real scripts: both come to the same.

CREDIT_WALKS=2000 ./crawlstream test -n 0 tests/integration/frontier/partitions/test_credits.py
"""

from __future__ import annotations

import os
from random import Random

import pytest
from redis.asyncio import Redis

from support.partitions.limits.replay import replay_credits
from support.partitions.planting import WalkBug, is_found

WALKS = int(os.environ.get("CREDIT_WALKS", "12"))
SEARCHED = 12
"""Most bugs need a few walks; ``first`` is the one that finds it."""

pytest_plugins = ("support.frontier.fixtures",)


BUGS = {
    "a partition that restarts keeps what it has not spent": WalkBug(
        right="account.drawn, account.unspent = life, account.drawn - account.unspent, 0",
        wrong="account.drawn = life, account.drawn",
        first=55,
    ),
    "a coordinator that has gone back does not count": WalkBug(
        right="if book.life ~= life then",
        wrong="if not book.life then",
        first=14,
    ),
    "answers of a former coordinator count": WalkBug(
        right="if home_life < account.home_life or account_life",
        wrong="if account_life",
        first=1519,
    ),
    "answers to a former life count": WalkBug(
        right="or account_life ~= account.life or",
        wrong="or",
        first=708,
    ),
    "answers to a former account count": WalkBug(
        right="or number ~= account.number then",
        wrong="then",
        first=608,
    ),
    "an older account is heard": WalkBug(
        right="elseif not is_older(account, known) and account[DRAWN] == known[DRAWN] then",
        wrong="elseif is_older(account, known) then book.accounts[partition] = account else",
        first=8,
    ),
    "an old draw is granted again": WalkBug(
        right="if wanted > 0 and asked[DRAWN] == known[DRAWN] and",
        wrong="if wanted > 0 and",
    ),
    "more is granted than there is": WalkBug(
        right="local more = math.min(wanted, left)",
        wrong="local more = wanted",
    ),
    "the limit is reached when all is drawn": WalkBug(
        right="wanted > 0 and spent >= limit and limit or 0",
        wrong="wanted > 0 and rank >= limit and limit or 0",
        first=8,
    ),
    "what others could give back is not waited for": WalkBug(
        right="rank, spent - known[DRAWN] + known[UNSPENT],",
        wrong="rank, rank - known[DRAWN],",
    ),
    "nothing is given back": WalkBug(
        right="local surplus = is_return and account.unspent - needed or 0",
        wrong="local surplus = is_return and 0 or 0",
    ),
    "an account that has given back is as before": WalkBug(
        right="account.unspent = account.number + 1, account.drawn - surplus, needed",
        wrong="account.unspent = account.number, account.drawn - surplus, needed",
    ),
    "a credit is spent again and again": WalkBug(
        right="account.unspent = account.unspent - spent",
        wrong="do return spent end",
    ),
    "more wait than could ever enter": WalkBug(
        right="elseif #packed >= room then",
        wrong="elseif false and room then",
    ),
}


@pytest.mark.usefixtures("still")
async def test_scripts_do_what_the_model_does(redis: Redis) -> None:
    """Accounts, links in limbo, admitted links, and the coordinator's data, also after faults."""
    finished = 0
    for seed in range(WALKS):
        finished += await replay_credits(redis, Random(seed))
    assert finished > WALKS // 2


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
async def test_a_bug_is_found(redis: Redis, bug: WalkBug) -> None:
    """Some walk comes to something else than the model."""
    assert await is_found(bug, lambda chance: replay_credits(redis, chance), SEARCHED)

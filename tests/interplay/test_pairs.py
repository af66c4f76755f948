"""Features in pairs: each pair is one short crawl on a real cluster, and the laws hold in all.

``INTERPLAY=all`` plays every pair instead of a sample, ``INTERPLAY=moved`` those whose features
have a name with this text; ``INTERPLAY_SEED`` repeats a sample.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from crawlstream_chaos.processes import RunningServer
from interplay.ground import Ground, settled
from interplay.pairs import FOUND_BUGS, NO_SENSE, all_casts, all_features
from interplay.playing import has_crash, play_all, started
from interplay.story import Feature

CHOSEN = os.environ.get("INTERPLAY", "")
SEED = os.environ.get("INTERPLAY_SEED", datetime.now(UTC).date().isoformat())
"""The sample changes every day."""
SAMPLE = 12
log = logging.getLogger(__name__)


def cast_list() -> Sequence[Sequence[Feature]]:
    """Return the pairs to play."""
    every = all_casts()
    if CHOSEN == "all":
        return every
    if CHOSEN:
        return [cast for cast in every if any(CHOSEN in each.name for each in cast)]
    found = [cast for cast in every if tuple(each.name for each in cast) in FOUND_BUGS]
    return [*found, *Random(SEED).sample(every, SAMPLE)]


@pytest.fixture(params=[1, 3], ids=["one_redis", "three_redis"])
def place(
    request: pytest.FixtureRequest,
    kafka_server: RunningServer,
    zookeeper_server: RunningServer,
    tmp_path: Path,
) -> Iterator[Ground]:
    """A cluster whose frontier has one partition, or three, each on a Redis."""
    with started(kafka_server, zookeeper_server, tmp_path, partitions=request.param) as place:
        yield place


async def test_features_meet_and_every_law_holds(place: Ground) -> None:
    """Every page comes once a feeding, ledgers are exact, rules hold, Redis is empty at the end."""
    casts = cast_list()
    if len(place.redis) > 1 and not CHOSEN:
        # The pages of a crawler that was killed come back after half a minute.
        casts = [cast for cast in casts if not has_crash(cast)]
    log.info("INTERPLAY_SEED=%s, %d stories", SEED, len(casts))
    told = await play_all(place, casts)
    left = await settled(place)
    assert not told, f"INTERPLAY_SEED={SEED}: {len(told)} failed\n\n" + "\n\n".join(told)
    assert not left, left


def test_pairs_that_make_no_sense_name_features_that_exist() -> None:
    """A feature that is renamed takes its exclusions with it."""
    known = {feature.name for feature in all_features()}
    assert all(pair <= known for pair in NO_SENSE), known
    played = {tuple(each.name for each in cast) for cast in all_casts()}
    assert played.issuperset(FOUND_BUGS), FOUND_BUGS

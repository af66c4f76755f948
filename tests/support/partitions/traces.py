"""Random walks through the model, each replayed on the scripts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from redis.asyncio import Redis

from support.partitions.real import RealCluster
from support.partitions.replay import Replay
from support.partitions.system import Step
from support.partitions.values import Cluster, State

_MOST_STEPS = 400
_CALM_AFTER = (0, 40, 100)


class Trace(NamedTuple):
    """Results of walks."""

    steps: int = 0
    finished: int = 0
    """Walks that came to the end of everything."""

    def __add__(self, other: object) -> Trace:
        assert isinstance(other, Trace)
        return Trace(self.steps + other.steps, self.finished + other.finished)


async def replay_walk(redis: Redis, random: Random, again: str) -> Trace:
    """Take random steps in both until all is done; AssertionError: they differ."""
    real = RealCluster(redis, any_cluster(random))
    replay, calm_after = Replay(real, random), random.choice(_CALM_AFTER)
    await real.begin()
    try:
        return await _walk(replay, random, calm_after)
    except Exception as error:
        error.add_note(f"{again}: {' '.join(replay.path)}: {real.cluster}")
        raise


async def _walk(replay: Replay, random: Random, calm_after: int) -> Trace:
    while len(replay.path) < _MOST_STEPS:
        steps = [*replay.crawl.steps(replay.state)]
        choices = [step for step in steps if not step.is_fault]
        if len(replay.path) <= calm_after and (not choices or random.random() < 0.1):
            choices = steps
        is_done = replay.crawl.is_done(replay.state)
        if not choices or (is_done and len(replay.path) > calm_after):
            return Trace(len(replay.path), int(is_done))
        await _tempt(replay, random, steps)
        if not await replay.take(_choice(random, choices)):
            break
    return Trace(len(replay.path))


async def _tempt(replay: Replay, random: Random, steps: Sequence[Step[State]]) -> None:
    """Now and then ask for what the model does not give, or remove what is over."""
    if random.random() < 0.1:
        await replay.ask_coordinator()
        place = random.randrange(len(replay.real.parts))
        await replay.real.parts[place].sweep()
        leased = {_place_of(step) for step in steps if step.name == "lease"}
        if place not in leased and None in replay.state.jobs:
            await replay.lease_nothing(place)


def _choice(random: Random, steps: Sequence[Step[State]]) -> Step[State]:
    """Any of them; the same in each process, where sets are in another order."""
    name, url = random.choice(sorted((step.name, step.url) for step in steps))
    alike = [step for step in steps if (step.name, step.url) == (name, url)]
    return alike[0] if len(alike) == 1 else random.choice(sorted(alike, key=_text_of))


def _text_of(value: object) -> str:
    if isinstance(value, frozenset):
        return f"{sorted(map(_text_of, value))}"
    return f"{[*map(_text_of, value)]}" if isinstance(value, tuple) else repr(value)


def _place_of(step: Step[State]) -> int | None:
    jobs = [job for job in step.after.jobs if job and job.url == step.url]
    return jobs[0].partition if jobs else None


def any_cluster(random: Random) -> Cluster:
    """Seeds are linked to by nothing: the model would have a page once that waits twice."""
    partitions = random.choice((1, 2, 2, 3, 3))
    urls = "abcdefghij"[: random.choice((3, 3, 5, 8))]
    incoming = random.sample(urls, k=random.choice((1, 2, 3)))
    linked = [url for url in urls if url not in incoming] or ["z"]
    if random.random() < 0.4:
        incoming.insert(random.randrange(1, len(incoming) + 1), "!")
    return Cluster(
        partitions=partitions,
        places={url: random.randrange(partitions) for url in sorted({*urls, *linked})},
        links={
            url: "".join(random.sample(linked, min(random.randrange(4), len(linked))))
            for url in urls
        },
        incoming="".join(incoming),
        workers=random.choice((1, 2, 3)),
        crashes=random.choice((0, 1, 1, 2, 3)),
        crashing=random.choice((None, None, (0,))),
        deaths=random.choice((0, 0, 2)),
        follows=True,
    )

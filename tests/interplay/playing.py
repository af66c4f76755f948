"""Plays stories side by side on one cluster, and lists those that break a law."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from crawlstream_chaos.processes import RunningServer
from interplay.ground import Ground, ground
from interplay.laws import broken_laws
from interplay.story import Feature, Story, readable
from support import servers
from support.monitors import Servers

_AT_ONCE = 16
log = logging.getLogger(__name__)


@contextmanager
def started(
    kafka: RunningServer,
    zookeeper: RunningServer,
    folder: Path,
    *,
    partitions: int = 1,
    code: Sequence[Path] = (),
) -> Iterator[Ground]:
    """Run a cluster with Redis servers of its own for the length of the block."""
    with ExitStack() as stack:
        redis = [stack.enter_context(servers.redis(folder / f"r{n}")) for n in range(partitions)]
        shelf = stack.enter_context(servers.redis(folder / "shelf"))
        home = folder / "home"
        home.mkdir()
        used = Servers(redis[0], kafka, zookeeper)
        yield stack.enter_context(ground(used, redis, shelf, home=home, code=code))


def has_crash(cast: Sequence[Feature]) -> bool:
    """Return whether crawlers are killed in a story of these features."""
    return any(feature.name == "crash" for feature in cast)


async def play_all(place: Ground, casts: Sequence[Sequence[Feature]]) -> Sequence[str]:
    """Play stories side by side; return those that break a law, as steps for a person.

    Those with a crash come last and all at once: one crash strikes all of them and no other.
    """

    async def one(number: int, cast: Sequence[Feature], turns: asyncio.Semaphore) -> str:
        story = Story(place, cast, number)
        place.site.stories |= dict.fromkeys((story.host, story.guest, story.images), story)
        async with turns:
            try:
                await story.play()
                wrong = broken_laws(story)
            except (TimeoutError, AssertionError) as error:
                wrong = {"the story comes to its end": [repr(error)[:500]]}
            finally:
                story.gate.set()
        log.info("%s: %s", " x ".join(each.name for each in cast), wrong or "holds")
        return readable(story, wrong) if wrong else ""

    numbered = list(enumerate(casts))
    crashing = [(number, cast) for number, cast in numbered if has_crash(cast)]
    calm = [(number, cast) for number, cast in numbered if not has_crash(cast)]
    place.expect_crashes(max(1, len(crashing)))
    told: list[str] = []
    for group, at_once in ((calm, _AT_ONCE), (crashing, len(crashing))):
        turns = asyncio.Semaphore(at_once)
        told += await asyncio.gather(*(one(number, cast, turns) for number, cast in group))
    await place.close()
    return [each for each in told if each]

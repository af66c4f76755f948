"""Random walks through clusters that are too large to be explored."""

from __future__ import annotations

from random import Random

from support.partitions.explore import CANNOT_END, Found
from support.partitions.protocol import Crawl
from support.partitions.values import Cluster

_CALM_AFTER = (50, 150, 400)
"""Steps after which nothing more fails."""
_MOST_STEPS = 6000


def walk(random: Random) -> Found:
    """Take any of the steps that are possible, with faults at first, until all is done."""
    crawl = Crawl(_any_cluster(random))
    state, path, calm_after = crawl.begin(), list[str](), random.choice(_CALM_AFTER)
    while len(path) < _MOST_STEPS:
        steps = [*crawl.steps(state)]
        choices = [step for step in steps if not step.is_fault]
        if len(path) <= calm_after and (not choices or random.random() < 0.1):
            choices = steps
        if crawl.is_done(state) and (len(path) > calm_after or not choices):
            return Found(len(path), None)
        if not choices:
            break
        step = random.choice(choices)
        path.append(step.name)
        if wrong := crawl.broken(state, step):
            return Found(len(path), wrong, path)
        state = step.after
    return Found(len(path), CANNOT_END, path)


def _any_cluster(random: Random) -> Cluster:
    partitions = random.choice((1, 2, 3, 4))
    urls = "abcdefghij"[: random.choice((4, 7, 10))]
    incoming = random.choices(urls, k=random.choice((1, 2, 3)))
    if random.random() < 0.4:
        incoming.insert(random.randrange(len(incoming) + 1), "!")
    return Cluster(
        partitions=partitions,
        places={url: random.randrange(partitions) for url in urls},
        links={url: "".join(random.sample(urls, random.randrange(4))) for url in urls},
        incoming="".join(incoming),
        workers=random.choice((1, 2, 3)),
        crashes=random.choice((0, 1, 2, 3)),
        deaths=random.choice((0, 2)),
        leaves_out=random.choice((False, True)),
    )

"""Partitions read Kafka, each its own seeds and its own links.

The position moves in the step of the effect, so that both go back together.
"""

from __future__ import annotations

from collections.abc import Iterator

from support.partitions.system import Step
from support.partitions.values import Bug, Cluster, Stamp, State, Version


def steps(cluster: Cluster, state: State) -> Iterator[Step[State]]:
    """A partition takes its next seed, or applies the next record of links."""
    for place in range(cluster.partitions):
        for stamp in state.stamps:
            if _is_for(cluster, state, place, stamp):
                yield _take(cluster, state, place, stamp)
        if state.partitions[place].links_position < len(state.links[place]):
            yield Step("apply", _applied(cluster, state, place))


def _is_for(cluster: Cluster, state: State, place: int, stamp: Stamp) -> bool:
    url = cluster.incoming[stamp.offset]
    is_next = stamp.offset == state.partitions[place].seeds_position
    return is_next and cluster.places.get(url) == place


def _take(cluster: Cluster, state: State, place: int, stamp: Stamp) -> Step[State]:
    """A seed enters, also a second time; one of a run that is over only moves the position."""
    url = cluster.incoming[stamp.offset]
    position = cluster.next_seed(place, stamp.offset + 1)
    partition = state.partitions[place]._replace(seeds_position=position)
    generation = stamp.generation
    if generation is not None and not partition.contexts[generation].is_dead:
        context = partition.contexts[generation]
        context = context.admit(frozenset(), _hint(cluster, stamp.version))
        queue, seen = context.queue | {url}, context.seen | {url}
        partition = partition.with_context(generation, context._replace(queue=queue, seen=seen))
        if cluster.follows:
            partition = partition.without_earlier(generation)
    after = state.with_partition(place, partition)
    return Step("take", after._replace(stamps=state.stamps - {stamp}))


def _applied(cluster: Cluster, state: State, place: int) -> State:
    partition = state.partitions[place]
    generation, version, urls = state.links[place][partition.links_position]
    partition = partition._replace(links_position=partition.links_position + 1)
    context = partition.contexts[generation]
    if not context.is_dead and cluster.bug is not Bug.POSITION_FIRST:
        partition = partition.with_context(generation, context.admit(urls, _hint(cluster, version)))
        if cluster.follows:
            partition = partition.without_earlier(generation)
    return state.with_partition(place, partition)


def _hint(cluster: Cluster, version: Version) -> Version:
    return Version(0, 0) if cluster.bug is Bug.NO_HINT else version

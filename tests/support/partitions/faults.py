"""Faults: workers die or are given up while they go on, partitions go back in time."""

from __future__ import annotations

from collections.abc import Iterator

from support.partitions.system import Step
from support.partitions.values import COORDINATOR, Bug, Cluster, Job, Snapshot, State


def steps(cluster: Cluster, state: State) -> Iterator[Step[State]]:
    """Steps of all faults that may occur now, and the reaping after earlier ones."""
    yield from _reaped(state)
    for worker, job in enumerate(state.jobs):
        if job is not None and state.deaths:
            after = state.with_job(worker, None)._replace(deaths=state.deaths - 1)
            yield Step("die", after, is_fault=True)
    if state.crashes:
        places = range(cluster.partitions) if cluster.crashing is None else cluster.crashing
        for place in places:
            yield from _crashes(cluster, state, place)


def _reaped(state: State) -> Iterator[Step[State]]:
    for place, partition in enumerate(state.partitions):
        for generation, context in enumerate(partition.contexts):
            for url, worker in context.held:
                is_alive = _works_on(state.jobs[worker], place, generation, url)
                if is_alive and not state.deaths:
                    continue
                queue = context.queue if context.is_dead else context.queue | {url}
                freed = context._replace(held=context.held - {(url, worker)}, queue=queue)
                after = state.with_context(place, generation, freed)
                after = after._replace(deaths=state.deaths - is_alive)
                yield Step("reap", after, url, is_fault=is_alive)


def _works_on(job: Job | None, place: int, generation: int, url: str) -> bool:
    """Return whether a worker will report; the report of one that is given up is stale."""
    return (
        job is not None
        and (job.partition, job.generation, job.url) == (place, generation, url)
        and job.stage != "settled"
    )


def _crashes(cluster: Cluster, state: State, place: int) -> Iterator[Step[State]]:
    """A partition stops reaching its disk, and later goes back to that moment.

    A power cut with `appendfsync everysec`, a failover to a replica that lags, an empty disk.
    """
    partition, registry = state.partitions[place], state.registry
    now = Snapshot(partition, registry if place == COORDINATOR else None)
    kept = state.snapshots[place]
    if kept is None and sum(s is not None for s in state.snapshots) < state.crashes:
        yield Step("freeze", _with_snapshot(state, place, now), is_fault=True)
    back = kept or now
    life = state.lives[place] + 1
    older = back.partition._replace(life=life)
    if cluster.bug is Bug.POSITIONS_KEPT:
        older = older._replace(
            links_position=partition.links_position, seeds_position=partition.seeds_position
        )
    after = _with_snapshot(state, place, None).with_partition(place, older)
    yield Step(
        "crash",
        after._replace(
            registry=back.registry or registry,
            crashes=state.crashes - 1,
            lives=(*state.lives[:place], life, *state.lives[place + 1 :]),
        ),
        is_fault=True,
    )


def _with_snapshot(state: State, place: int, snapshot: Snapshot | None) -> State:
    kept = state.snapshots
    return state._replace(snapshots=(*kept[:place], snapshot, *kept[place + 1 :]))

"""Endings of runs: one look at every partition, in any order, then the coordinator decides.

Each partition answers at one moment whether it is idle, what it needs others to have read, and how
far it has read itself. Only a record behind the position that it reported wakes a partition after
its look. The sender of that record needs it, and was not idle, or reports so in a later look.
"""

from __future__ import annotations

from collections.abc import Iterator

from support.partitions.system import Step
from support.partitions.values import (
    COORDINATOR,
    Bug,
    Cluster,
    Look,
    Mark,
    Report,
    State,
    Tell,
    Version,
)


def steps(cluster: Cluster, state: State) -> Iterator[Step[State]]:
    """The monitor's next call."""
    look = state.look
    if look is None:
        yield from _begin(state)
    elif len(look.reports) < cluster.partitions:
        yield _ask(state, look)
    elif cluster.bug is Bug.LATE_POSITIONS and len(look.positions) < cluster.partitions:
        position = state.partitions[len(look.positions)].links_position
        later = look._replace(positions=(*look.positions, position))
        yield Step("ask_position", state._replace(look=later))
    elif _is_over(cluster, state, look):
        yield Step("finish", _finished(state, look))
    else:
        yield Step("give_up", state._replace(look=None))


def _begin(state: State) -> Iterator[Step[State]]:
    registry, life = state.registry, state.partitions[COORDINATOR].life
    is_ready = registry.restored == life and registry.is_published
    if registry.is_open and is_ready and not registry.has_lapsed:
        look = Look(state.version, registry.generation, registry.run, registry.position)
        yield Step("look", state._replace(look=look))


def _ask(state: State, look: Look) -> Step[State]:
    partition = state.partitions[len(look.reports)]
    context = partition.contexts[look.generation]
    if not context.is_idle:
        return Step("not_idle", state._replace(look=None))
    report = Report(context.need, partition.links_position, partition.seeds_position)
    return Step("idle", state._replace(look=look._replace(reports=(*look.reports, report))))


def _is_over(cluster: Cluster, state: State, look: Look) -> bool:
    positions = look.positions or tuple(report.links_position for report in look.reports)
    is_read = cluster.bug is Bug.NO_NEED or all(
        needed <= position
        for report in look.reports
        for needed, position in zip(report.need, positions, strict=True)
    )
    is_taken = cluster.bug is Bug.NO_SEEDS_POSITION or all(
        report.seeds_position >= look.seeds_position for report in look.reports
    )
    return is_read and is_taken and _is_unchanged(cluster, state, look)


def _is_unchanged(cluster: Cluster, state: State, look: Look) -> bool:
    """Compare and set: whatever was enrolled or stopped since the look has another version."""
    registry, life = state.registry, state.partitions[COORDINATOR].life
    if registry.has_lapsed:
        return False
    if cluster.bug is Bug.NO_COMPARE_AND_SET:
        is_same_run = (registry.generation, registry.run) == (look.generation, look.run)
        return registry.is_open and registry.restored == life and is_same_run
    return registry.is_open and registry.restored == life and state.version == look.version


def _finished(state: State, look: Look) -> State:
    registry = state.registry
    life = state.version.life
    version = Version(life, registry.number + 1)
    ending = Mark("end", life, look.generation, registry.run, registry.position)
    tell = {Tell(p, look.generation, version) for p in range(len(state.partitions))}
    ended = registry._replace(
        is_open=False,
        number=version.number,
        over=registry.position,
        is_published=False,
        owed=ending,
        tell=registry.tell | tell,
    )
    return state._replace(registry=ended, look=None)

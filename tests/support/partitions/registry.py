"""The coordinator of a crawl: opens runs, ends generations, and notifies the other partitions."""

from __future__ import annotations

from collections.abc import Iterator

from support.partitions.labels import told
from support.partitions.system import Step
from support.partitions.values import (
    COORDINATOR,
    NEVER,
    Bug,
    Cluster,
    Mark,
    Registry,
    Stamp,
    State,
    Tell,
    Version,
)


def steps(cluster: Cluster, state: State) -> Iterator[Step[State]]:
    """Steps of the coordinator; in a new life it first restores what others know."""
    registry = state.registry
    if registry.restored != state.partitions[COORDINATOR].life:
        yield Step("restore", _restored(cluster, state))
        return
    if _may_enroll(cluster, registry):
        yield _enroll(cluster, state)
    yield from _lapses(cluster, state)
    for partition in state.partitions:
        offset = partition.seeds_position
        if offset < registry.position and all(stamp.offset != offset for stamp in state.stamps):
            stamps = state.stamps | {_stamp(registry, state.version, offset)}
            yield Step("repeat_stamp", state._replace(stamps=stamps))
    yield from _publish(state)
    for tell in registry.tell:
        after = state.with_registry(registry._replace(tell=registry.tell - {tell}))
        is_dead = tell.generation < registry.generation
        yield Step("label_ended", told(cluster, after, tell, 0, is_dead=is_dead))


def _may_enroll(cluster: Cluster, registry: Registry) -> bool:
    if registry.position == len(cluster.incoming):
        return False
    return not registry.has_lapsed or cluster.incoming[registry.position] == "!"


def _lapses(cluster: Cluster, state: State) -> Iterator[Step[State]]:
    """The clock says that a run is to end, which stays so; when Kafka has that, it ends."""
    registry = state.registry
    if registry.is_open and state.lapses and not registry.has_lapsed:
        lapsed = state.with_registry(registry._replace(has_lapsed=True))
        yield Step("overdue", lapsed._replace(lapses=state.lapses - 1))
    if not registry.has_lapsed:
        return
    generation = registry.generation + 1
    mark = Mark("lapse", state.version.life, generation, offset=registry.position)
    if mark in state.runs or cluster.bug is Bug.LAPSE_NOT_NOTED:
        yield Step("lapse", _stopped(state, generation, registry.position))
    elif mark not in state.endings:
        yield Step("ask_lapse", state._replace(endings=state.endings | {mark}))


def _enroll(cluster: Cluster, state: State) -> Step[State]:
    """The next record of `incoming`: a seed gets a run, a stop ends the generation."""
    registry = state.registry
    is_stop = cluster.incoming[registry.position] == "!"
    passed = state.with_registry(registry._replace(position=registry.position + 1))
    if is_stop:
        return _stop(cluster, state, passed)
    if registry.position < registry.over:
        return Step("skip", passed)
    run = registry.run if registry.is_open else registry.run + 1
    opened = passed.registry._replace(run=run, is_open=True, number=registry.number + 1)
    after = state.with_registry(opened)
    stamp = _stamp(after.registry, after.version, registry.position)
    return Step("enroll", after._replace(stamps=after.stamps | {stamp}))


def _stop(cluster: Cluster, state: State, passed: State) -> Step[State]:
    registry = state.registry
    marks = (mark for mark in state.runs if mark.kind == "stop")
    noted = next((mark for mark in marks if mark.offset == registry.position), None)
    if noted is None and cluster.bug is not Bug.STOP_NOT_NOTED:
        mark = Mark("stop", state.version.life, registry.generation + 1, offset=registry.position)
        return Step("note_stop", state._replace(runs=(*state.runs, mark)))
    if noted is not None and noted.generation <= registry.generation:
        return Step("skip", passed)
    return Step("stop", _stopped(passed, registry.generation + 1, registry.position))


def _stopped(state: State, generation: int, offset: int) -> State:
    """End the generations before this one, and notify all partitions."""
    registry = state.registry
    version = Version(state.version.life, registry.number + 1)
    places, ended = range(len(state.partitions)), range(registry.generation, generation)
    stopped = registry._replace(
        generation=generation,
        is_open=False,
        number=version.number,
        is_published=True,
        owed=None,
        over=max(registry.over, offset),
        has_lapsed=False,
        tell=registry.tell | {Tell(p, each, version) for p in places for each in ended},
    )
    return state.with_registry(stopped)


def _stamp(registry: Registry, version: Version, offset: int) -> Stamp:
    if offset < registry.over:
        return Stamp(offset, None, NEVER)
    return Stamp(offset, registry.generation, version)


def _publish(state: State) -> Iterator[Step[State]]:
    """Append the ending to `runs`; it may take long, or be lost and repeated."""
    owed = state.registry.owed
    if owed is not None and owed in state.runs:
        after = state.registry._replace(is_published=True, owed=None)
        yield Step("ending_is_published", state.with_registry(after))
    elif owed is not None and owed not in state.endings:
        yield Step("publish_ending", state._replace(endings=state.endings | {owed}))
    for ending in state.endings:
        left, runs = state.endings - {ending}, (*state.runs, ending)
        yield Step("append_ending", state._replace(endings=left, runs=runs))


def _restored(cluster: Cluster, state: State) -> State:
    """Restore from `runs`, except marks of an epoch that came after those of a later one."""
    latest = 1
    for mark in state.runs if cluster.bug is not Bug.NOT_RESTORED else ():
        if mark.kind == "life":
            latest = max(latest, mark.life)
        elif mark.life < latest and cluster.bug is not Bug.NO_FENCE:
            continue
        elif mark.kind in {"stop", "lapse"} and mark.generation > state.registry.generation:
            state = _stopped(state, mark.generation, mark.offset)
        elif mark.kind == "end":
            state = _ended(state, mark)
    life = state.partitions[COORDINATOR].life
    state = state.with_registry(state.registry._replace(restored=life))
    return state._replace(runs=(*state.runs, Mark("life", life)))


def _ended(state: State, mark: Mark) -> State:
    """A run that others know to be over is over."""
    registry = state.registry
    is_behind = mark.run > registry.run or (mark.run == registry.run and registry.is_open)
    if mark.generation == registry.generation and is_behind:
        version = Version(state.version.life, registry.number + 1)
        tell = {Tell(p, mark.generation, version) for p in range(len(state.partitions))}
        registry = registry._replace(
            is_open=False,
            number=version.number,
            is_published=True,
            owed=None,
            tell=registry.tell | tell,
        )
    return state.with_registry(
        registry._replace(run=max(registry.run, mark.run), over=max(registry.over, mark.offset))
    )

"""Workers: lease a page, publish what it led to, then settle it; any of them may die or be slow."""

from __future__ import annotations

from collections.abc import Iterator

from support.partitions.system import Step
from support.partitions.values import NEVER, Bug, Cluster, Job, Need, Record, State


def steps(cluster: Cluster, state: State) -> Iterator[Step[State]]:
    """The next step of each worker."""
    for worker, job in enumerate(state.jobs):
        if job is None:
            yield from _leases(state, worker)
        elif job.stage == "fetched":
            yield _publish(cluster, state, worker, job)
            if cluster.bug is Bug.SETTLE_FIRST:
                after = _settled(cluster, state, worker, job)
                yield Step("settle", after.with_job(worker, job._replace(stage="settled")))
        elif job.stage == "published":
            after = _settled(cluster, state, worker, job).with_job(worker, None)
            yield Step("settle", after, job.url)
        else:
            after, _ = _sent(cluster, state, job)
            yield Step("publish_late", after.with_job(worker, None))


def _leases(state: State, worker: int) -> Iterator[Step[State]]:
    for place, partition in enumerate(state.partitions):
        for generation, context in enumerate(partition.contexts):
            for url in context.queue if partition.may_lease(generation) else ():
                leased = context._replace(
                    queue=context.queue - {url}, held=context.held | {(url, worker)}
                )
                job = Job(place, generation, context.known, url, "fetched")
                after = state.with_context(place, generation, leased).with_job(worker, job)
                yield Step("lease", after, url)


def _publish(cluster: Cluster, state: State, worker: int, job: Job) -> Step[State]:
    """The result and the links to other partitions are in Kafka; their offsets are needed."""
    after, need = _sent(cluster, state, job)
    after = after._replace(results=state.results | {job.url})
    own = _left(cluster, state, job, job.partition) if cluster.leaves_out else None
    published = job._replace(stage="published", need=need, own=own)
    return Step("publish", after.with_job(worker, published), job.url)


def _sent(cluster: Cluster, state: State, job: Job) -> tuple[State, Need]:
    """The state with the page's links to other partitions, and the offsets behind their records."""
    need = [0] * cluster.partitions
    for place in range(cluster.partitions):
        urls = _left(cluster, state, job, place)
        if urls and place != job.partition:
            state = state.with_record(place, Record(job.generation, job.version, urls))
            need[place] = len(state.links[place])
        if cluster.leaves_out and cluster.bug is not Bug.LEFT_OUT_NOT_NEEDED:
            need[place] = len(state.links[place])
    return state, tuple(need)


def _left(cluster: Cluster, state: State, job: Job, place: int) -> frozenset[str]:
    """The page's links to one partition, but for those that it has from Kafka, or will have."""
    urls = _children(cluster, job.url, place)
    if not (urls and cluster.leaves_out):
        return urls
    records = (each for each in state.links[place] if each.generation == job.generation)
    return urls.difference(*(record.urls for record in records))


def _children(cluster: Cluster, url: str, place: int) -> frozenset[str]:
    """The page's links to the domains of one partition."""
    return frozenset(u for u in cluster.links.get(url, ()) if cluster.places[u] == place)


def _settled(cluster: Cluster, state: State, worker: int, job: Job) -> State:
    """In one script: its own links enter, what it needs is noted, the page is complete.

    A worker whose lease was revoked changes nothing.
    """
    context = state.partitions[job.partition].contexts[job.generation]
    lease = job.url, worker
    if lease not in context.held:
        return state
    context = context._replace(held=context.held - {lease})
    if not context.is_dead:
        own = _children(cluster, job.url, job.partition) if job.own is None else job.own
        context = context.admit(own, NEVER)
        need = () if cluster.bug is Bug.NEED_FORGOTTEN else job.need
        if need:
            context = context._replace(need=tuple(map(max, context.need, need)))
    return state.with_context(job.partition, job.generation, context)

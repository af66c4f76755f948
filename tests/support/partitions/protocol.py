"""The protocol: what may happen next in a state, what must never happen, and when all is done."""

from __future__ import annotations

from collections.abc import Iterator

from support.partitions import endings, faults, labels, reading, registry, working
from support.partitions.system import Step
from support.partitions.values import COORDINATOR, Cluster, State, beginning


class Crawl:
    """Model of one crawl by one cluster, to be explored."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def begin(self) -> State:
        """Nothing has happened yet."""
        return beginning(self.cluster)

    def steps(self, state: State) -> Iterator[Step[State]]:
        """Every call that may happen next. Each is atomic: one script, or one append."""
        for part in (registry, reading, labels, working, endings, faults):
            yield from part.steps(self.cluster, state)

    def broken(self, before: State, step: Step[State]) -> str | None:
        """Return the law that a step breaks; None: none."""
        if step.name == "finish":
            return _ended_early(self.cluster, before)
        if step.name == "lease" and before.crashes == self.cluster.crashes:
            return _leased_late(before, step)
        if step.name == "publish" and step.url in before.results:
            return _fetched_again(self.cluster, before, step)
        return None

    def is_done(self, state: State) -> bool:
        """All is read, told, delivered and over; leftovers of a crash wait for a next run."""
        coordinator = state.registry
        return (
            coordinator.restored == state.partitions[COORDINATOR].life
            and coordinator.position == len(self.cluster.incoming)
            and not coordinator.is_open
            and coordinator.is_published
            and coordinator.owed is None
            and not coordinator.tell
            and not any(state.jobs)
            and all(_is_read(self.cluster, state, p) for p in range(self.cluster.partitions))
            and self.cluster.due(len(self.cluster.incoming), _expired(state)) <= state.results
        )


def _ended_early(cluster: Cluster, before: State) -> str | None:
    missing = cluster.due(before.registry.position, _expired(before)) - before.results
    if not missing:
        return None
    return f"a run ended before {', '.join(sorted(missing))} was delivered"


def _leased_late(before: State, step: Step[State]) -> str | None:
    """Without crashes, nothing is leased for a run that the coordinator knows to be over."""
    coordinator = before.registry
    for partition in before.partitions:
        context = partition.contexts[coordinator.generation]
        is_open = coordinator.is_open and context.label == coordinator.run
        if (
            step.url in context.queue
            and partition.may_lease(coordinator.generation)
            and not is_open
        ):
            return f"{step.url} was leased for run {context.label}, which was over"
    return None


def _fetched_again(cluster: Cluster, before: State, step: Step[State]) -> str | None:
    """A page is fetched once, unless it is a seed, a stop came between, or something failed."""
    has_failed = (before.crashes, before.deaths) != (cluster.crashes, cluster.deaths)
    has_ended = "!" in cluster.incoming or cluster.lapses
    if has_failed or has_ended or step.url in cluster.incoming:
        return None
    return f"{step.url} was fetched twice, and nothing had failed"


def _expired(state: State) -> int:
    """Below this offset seeds belong to runs that have expired, or are going to."""
    return max((mark.offset for mark in state.marks() if mark.kind == "lapse"), default=0)


def _is_read(cluster: Cluster, state: State, place: int) -> bool:
    partition = state.partitions[place]
    if partition.links_position < len(state.links[place]):
        return False
    is_working = any(
        context.held or (context.queue and partition.may_lease(generation))
        for generation, context in enumerate(partition.contexts)
    )
    return partition.seeds_position >= len(cluster.incoming) and not is_working

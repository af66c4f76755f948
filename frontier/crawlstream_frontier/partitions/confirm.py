"""Labels between coordinators and partitions, and the check whether a run is over."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.partitions.messages import Look, OpenRun, Question
from crawlstream.model.statuses import PAGE_ENDS
from crawlstream_frontier.partition_calls.contexts import Contexts
from crawlstream_frontier.partition_calls.coordinator import Coordinator


async def confirm(
    coordinator_of: Callable[[CrawlKey], Coordinator],
    contexts: Contexts,
    redis_epoch: int,
    questions: Sequence[Question],
) -> int:
    """Fetch labels from coordinators and store them in the partition; return how many took effect.

    ``redis_epoch`` is that of the partition, from before. RedisUnavailable, NotRestored: a
    coordinator cannot answer; the labels of other coordinators may be stored.
    """
    by_coordinator = defaultdict[Coordinator, list[Question]](list)
    for question in questions:
        by_coordinator[coordinator_of(question.context.crawl)].append(question)
    told = 0
    for coordinator, asked in by_coordinator.items():
        told += await contexts.label(redis_epoch, await coordinator.labels(asked))
    return told


def is_over(
    run: OpenRun, looks: Sequence[Look], reports: int, links_topic_id: str, *, coordinator: int
) -> bool:
    """Return True if a run is over, by one look at each partition, in their order.

    ``reports``: the place of the run's context in each look; ``coordinator``: its crawl's. Every
    partition was idle, has read the seeds that were enrolled, and the links that any of them needs
    it to have read.
    """
    said = [look.reports[reports] for look in looks]
    reached = [look.positions.get((links_topic_id, p), 0) for p, look in enumerate(looks)]
    return (
        all(report.is_idle for report in said)
        and all(reached[q] >= needed for report in said for q, needed in report.need.items())
        and all(
            look.reached(place, coordinator) >= seeds
            for look in looks
            for place, seeds in run.seeds.items()
        )
    )


def summed(run: OpenRun, looks: Sequence[Look], reports: int) -> Mapping[str, int]:
    """Return the counters of a run in all partitions together; leave out those of other runs.

    A partition may have stored that it was over, from a coordinator that has gone back since.
    """
    total = Counter[str]()
    for look in looks:
        report = look.reports[reports]
        if report.run in {0, run.run}:
            total.update(report.ledger)
        if report.kept_run == run.run:
            total.update(report.kept)
            total["admitted"] += sum(report.kept.get(end, 0) for end in PAGE_ENDS)
    return total

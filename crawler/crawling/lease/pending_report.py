"""Pending reports to the frontier about the leases of this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from crawlstream.model.effects import Outcome, Release, Requeue, SentRequest, Settle
from crawlstream.model.throttle_table import Reaction

ENDS_PER_EXCHANGE = 200
LINKS_PER_EXCHANGE = 1_000
"""Together they keep the script of one exchange near 5 ms."""

End = Settle | Requeue | Release


@dataclass(frozen=True, slots=True)
class LeaseReport:
    """Report of one exchange to the frontier."""

    settles: Sequence[Settle] = ()
    requeues: Sequence[Requeue] = ()
    releases: Sequence[Release] = ()
    sent: Sequence[SentRequest] = ()

    def __bool__(self) -> bool:
        """Return whether there is anything to report."""
        return bool(self.settles or self.requeues or self.releases or self.sent)

    @property
    def ends(self) -> Iterator[End]:
        """Everything that ends a lease."""
        yield from self.settles
        yield from self.requeues
        yield from self.releases


class PendingReport:
    """Pending reports: ends in their order, and the latest state of each request that has left."""

    def __init__(self) -> None:
        self._ends: deque[End] = deque()
        self._sent: dict[str, SentRequest] = {}

    def __bool__(self) -> bool:
        return bool(self._ends or self._sent)

    def note_sent(self, sent: SentRequest) -> None:
        """Note that a request has left, or that the site has reacted to it."""
        self._sent[sent.token] = sent

    def add(self, end: End) -> None:
        """Add the end of a lease."""
        self._ends.append(end)

    def end(self, end: End) -> None:
        """Add the end of a lease; drop its request's report if the end implies it."""
        if _tells_all(end, self._sent.get(end.token)):
            self.forget(end.token)
        self.add(end)

    def forget(self, token: str) -> None:
        """Drop the report of a request."""
        self._sent.pop(token, None)

    def take(self) -> LeaseReport:
        """Take the report of one exchange."""
        sent, self._sent = tuple(self._sent.values()), {}
        return replace(_taken_from(self._ends), sent=sent)


def _taken_from(ends: deque[End]) -> LeaseReport:
    """Take the ends that fit one exchange; one settle always fits."""
    settles: list[Settle] = []
    requeues: list[Requeue] = []
    releases: list[Release] = []
    links = 0
    while ends and len(settles) + len(requeues) + len(releases) < ENDS_PER_EXCHANGE:
        end = ends[0]
        if isinstance(end, Settle):
            more = sum(len(group.entries) for group in end.links)
            if settles and links + more > LINKS_PER_EXCHANGE:
                break
            links += more
            settles.append(end)
        else:
            (requeues if isinstance(end, Requeue) else releases).append(end)  # type: ignore[arg-type]
        ends.popleft()
    return LeaseReport(settles, requeues, releases)


def _tells_all(end: End, sent: SentRequest | None) -> bool:
    """Return whether an end makes the report needless: a result implies that the site answered."""
    if sent is None or sent.heard is None:
        return True
    if sent.first_byte_ms is not None:
        return False
    is_result = isinstance(end, Settle) and end.outcome is not Outcome.FAILED
    return is_result and sent.heard.reaction is Reaction.ANSWER

"""A small frontier of several partitions, as a value: Redis, Kafka, processes, their messages.

One crawl, some partitions of which partition 0 is its coordinator, workers, one monitor. What is in
Redis can go back to an earlier moment; what is in Kafka cannot. `docs/partitions.md` has the
protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Literal, NamedTuple

COORDINATOR = 0
"""The partition that has the registry of the crawl."""


class Version(NamedTuple):
    """Which state of the registry: of two, the larger one is the later."""

    life: int
    number: int


NEVER = Version(0, 0)

Need = tuple[int, ...]
"""For each partition: the offset up to which its `links` must be read."""


class Context(NamedTuple):
    """State of one generation of the crawl in one partition."""

    need: Need
    is_dead: bool = False
    known: Version = NEVER
    """State of the registry that the label is from."""
    label: int = 0
    """The run that it works for; 0: none is open."""
    hint: Version = NEVER
    """The latest version that any of its pages came with."""
    confirmed_in: int = 0
    """Life of this partition in which the coordinator said so."""
    queue: frozenset[str] = frozenset()
    held: frozenset[tuple[str, int]] = frozenset()
    """Pages in flight, each with its worker."""
    seen: frozenset[str] = frozenset()

    @property
    def is_idle(self) -> bool:
        """Return whether no page is waiting or in flight."""
        return not (self.queue or self.held)

    def admit(self, urls: frozenset[str], version: Version) -> Context:
        """Links that came with a version enter, each URL once."""
        new = urls - self.seen
        return self._replace(
            queue=self.queue | new, seen=self.seen | new, hint=max(self.hint, version)
        )


class Partition(NamedTuple):
    """State of a partition. Positions are next offsets to apply."""

    life: int
    links_position: int
    seeds_position: int
    contexts: tuple[Context, ...]
    """By generation."""

    def with_context(self, generation: int, context: Context) -> Partition:
        """Return a copy with another context."""
        before, after = self.contexts[:generation], self.contexts[generation + 1 :]
        return self._replace(contexts=(*before, context, *after))

    def without_earlier(self, generation: int) -> Partition:
        """Return a copy in which all generations before this one are over."""
        ended = [c._replace(is_dead=True, queue=frozenset(), label=0) for c in self.contexts]
        return self._replace(contexts=(*ended[:generation], *self.contexts[generation:]))

    def may_lease(self, generation: int) -> bool:
        """Return whether the coordinator has confirmed, in this life, a recent run."""
        context = self.contexts[generation]
        return (
            not context.is_dead
            and context.label > 0
            and context.confirmed_in == self.life
            and context.known >= context.hint
        )


class Mark(NamedTuple):
    """A record of `runs`."""

    kind: Literal["stop", "lapse", "end", "life"]
    life: int
    """Life of the coordinator in which it was written."""
    generation: int = 0
    """Generation that a stop or a lapse begins."""
    run: int = 0
    offset: int = 0
    """Seeds below it belong to what is over."""


class Tell(NamedTuple):
    """A pending message to a partition: the run of a generation is over."""

    partition: int
    generation: int
    version: Version


class Registry(NamedTuple):
    """State of the crawl at its coordinator."""

    restored: int = 1
    """Life of the coordinator in which it has read `runs`."""
    position: int = 0
    """Next record of `incoming`."""
    over: int = 0
    """Seeds below it belong to runs that have ended."""
    generation: int = 0
    run: int = 0
    is_open: bool = False
    number: int = 0
    """Number of its changes in this life."""
    is_published: bool = True
    """True if Kafka has the ending of the run before."""
    owed: Mark | None = None
    """The ending that is to be published."""
    tell: frozenset[Tell] = frozenset()
    has_lapsed: bool = False
    """Its clock has said that the run is to end, with its generation."""


class Record(NamedTuple):
    """A record of `links`: what some pages that were leased under a version link to."""

    generation: int
    version: Version
    urls: frozenset[str]


class Stamp(NamedTuple):
    """A message of the coordinator that assigns a seed to a generation."""

    offset: int
    generation: int | None
    """None: to a run that has ended."""
    version: Version


class Question(NamedTuple):
    """A partition asks which run is open."""

    partition: int
    life: int
    generation: int


class Answer(NamedTuple):
    """The coordinator answers it."""

    question: Question
    version: Version
    run: int
    is_dead: bool


class Job(NamedTuple):
    """Work of a worker."""

    partition: int
    generation: int
    version: Version
    url: str
    stage: Literal["fetched", "published", "settled"]
    """`settled`: before it was published, which is a bug."""
    need: Need = ()
    own: frozenset[str] | None = None
    """Links that the settle carries, where some of those to its partition may be left out."""


class Report(NamedTuple):
    """State of a partition as the monitor read it."""

    need: Need
    links_position: int
    seeds_position: int


class Look(NamedTuple):
    """The monitor looks whether a run is over, at one partition after the other."""

    version: Version
    generation: int
    run: int
    seeds_position: int
    """As the coordinator has them when the look begins."""
    reports: tuple[Report, ...] = ()
    positions: tuple[int, ...] = ()
    """Asked for afterwards, which is a bug."""


class Snapshot(NamedTuple):
    """The latest moment of a partition that has reached its disk."""

    partition: Partition
    registry: Registry | None


class State(NamedTuple):
    """Everything. In Redis are partitions and registry, in Kafka links, runs and results."""

    partitions: tuple[Partition, ...]
    registry: Registry
    links: tuple[tuple[Record, ...], ...]
    """By partition."""
    snapshots: tuple[Snapshot | None, ...]
    lives: tuple[int, ...]
    crashes: int
    """How many more are to be expected."""
    deaths: int
    jobs: tuple[Job | None, ...]
    """By worker."""
    lapses: int = 0
    """How often the coordinator's clock may still end a run."""
    runs: tuple[Mark, ...] = ()
    results: frozenset[str] = frozenset()
    look: Look | None = None
    stamps: frozenset[Stamp] = frozenset()
    questions: frozenset[Question] = frozenset()
    answers: frozenset[Answer] = frozenset()
    endings: frozenset[Mark] = frozenset()
    """On their way to Kafka, maybe for a long time."""

    @property
    def version(self) -> Version:
        """Version of the registry."""
        return Version(self.partitions[COORDINATOR].life, self.registry.number)

    def with_registry(self, registry: Registry) -> State:
        """Return a copy with another registry."""
        return self._replace(registry=registry)

    def with_partition(self, place: int, partition: Partition) -> State:
        """Return a copy with another partition."""
        before, after = self.partitions[:place], self.partitions[place + 1 :]
        return self._replace(partitions=(*before, partition, *after))

    def with_context(self, place: int, generation: int, context: Context) -> State:
        """Return a copy with another context."""
        changed = self.partitions[place].with_context(generation, context)
        return self.with_partition(place, changed)

    def with_job(self, worker: int, job: Job | None) -> State:
        """Return a copy in which a worker has another state."""
        return self._replace(jobs=(*self.jobs[:worker], job, *self.jobs[worker + 1 :]))

    def marks(self) -> Iterator[Mark]:
        """Yield records of ``runs`` but those that an earlier life wrote behind a later one."""
        latest = 1
        for mark in self.runs:
            if mark.kind == "life":
                latest = max(latest, mark.life)
            elif mark.life >= latest:
                yield mark

    def with_record(self, place: int, record: Record) -> State:
        """Return a copy with one more record for a partition."""
        log = (*self.links[place], record)
        return self._replace(links=(*self.links[:place], log, *self.links[place + 1 :]))


class Bug(Enum):
    """A law of the protocol that an implementation may forget."""

    LATE_POSITIONS = "the positions are read after all partitions were found idle"
    NO_NEED = "a run ends though a partition has not read the links that it is needed to read"
    NO_SEEDS_POSITION = "a run ends though a partition has not read its seeds"
    NO_COMPARE_AND_SET = "a run ends though its registry has changed since the look"
    SETTLE_FIRST = "a page is complete before Kafka has its links"
    NEED_FORGOTTEN = "a page is complete without telling what it needs others to read"
    POSITIONS_KEPT = "a partition goes back in time, but its positions do not"
    POSITION_FIRST = "a position is stored before the records below it have taken effect"
    NO_HINT = "pages of a new run are leased under the label of the former one"
    LEFTOVERS_DROPPED = "what an ended run has left behind is deleted"
    NOT_RESTORED = "the home goes back in time and does not read what it has told others"
    STOP_NOT_NOTED = "a stop takes effect before Kafka has it"
    NO_FENCE = "an ending that an earlier life of the home publishes late counts"
    LAPSE_NOT_NOTED = "a run expires before Kafka has that"
    LEFT_OUT_NOT_NEEDED = "a page needs only its own records, not those that it left links out for"


class Cluster(NamedTuple):
    """Pages to crawl, their partitions and workers, and faults that may occur."""

    places: dict[str, int]
    """The partition of each URL, which is a letter."""
    links: dict[str, str]
    """Links of each URL."""
    incoming: str
    """A letter is a seed, `!` a stop."""
    partitions: int = 2
    workers: int = 1
    crashes: int = 0
    deaths: int = 0
    lapses: int = 0
    """How often a run may expire, at any moment."""
    crashing: tuple[int, ...] | None = None
    """Partitions that may crash; None: all."""
    bug: Bug | None = None
    leaves_out: bool = False
    """True: workers leave out links that Kafka has from them, or others, for the generation."""
    follows: bool = False
    """True: a record of a later generation ends the earlier ones, as in the scripts; else only
    the coordinator does."""

    def next_seed(self, partition: int, offset: int) -> int:
        """Where a partition's next seed is; other records do not concern it."""
        while offset < len(self.incoming) and self.places.get(self.incoming[offset]) != partition:
            offset += 1
        return offset

    def due(self, end: int, covered: int = 0) -> frozenset[str]:
        """Return the records below an offset that must be delivered: all that no stop has covered.

        ``covered``: below it the seeds' runs have expired.
        """
        found: set[str] = set()
        begin = max(self.incoming[:end].rfind("!") + 1, covered)
        left = [*self.incoming[begin:end]]
        while left:
            url = left.pop()
            if url not in found:
                found.add(url)
                left += self.links.get(url, "")
        return frozenset(found)


def beginning(cluster: Cluster) -> State:
    """Nothing has happened yet."""
    n = cluster.partitions
    contexts = (Context((0,) * n),) * (1 + cluster.incoming.count("!") + cluster.lapses)
    return State(
        partitions=tuple(Partition(1, 0, cluster.next_seed(p, 0), contexts) for p in range(n)),
        registry=Registry(),
        links=((),) * n,
        snapshots=(None,) * n,
        lives=(1,) * n,
        crashes=cluster.crashes,
        deaths=cluster.deaths,
        jobs=(None,) * cluster.workers,
        lapses=cluster.lapses,
    )

"""Steps of the model, taken on the real scripts as well: both must come to the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any, Literal

from crawlstream.errors import NotRestored
from crawlstream.model.partitions.messages import (
    CoordinatorMark,
    Ending,
    Label,
    Look,
    OpenRun,
    Question,
    Stamp,
    ToNote,
    survivors,
)
from crawlstream_frontier.partitions.confirm import is_over, summed
from support.partitions import values as model
from support.partitions.compare import assert_same
from support.partitions.protocol import Crawl
from support.partitions.real import LINKS, PLACE, Moment, RealCluster, Work
from support.partitions.system import Step
from support.partitions.values import COORDINATOR, State

_KINDS: dict[str, Ending | Literal["end"]] = {
    "stop": "stopped",
    "lapse": "expired",
    "end": "end",
}
"""Names of the marks of the model in reality."""

_TRIED = 3
"""How often a lease is asked for that must be given: a domain may have to wait for its turn."""


class Replay:
    """A walk through both."""

    def __init__(self, real: RealCluster, random: Random) -> None:
        self.real = real
        self.random = random
        self.crawl = Crawl(real.cluster)
        self.state = self.crawl.begin()
        self.path: list[str] = []
        self.jobs: dict[int, Work] = {}
        self.stamps: dict[model.Stamp, Stamp] = {}
        self.questions: dict[tuple[int, int, int], Question] = {}
        self.answers: dict[tuple[int, int, int], Label] = {}
        self.look: OpenRun | None = None
        self.looks: list[Look] = []
        self.moments: dict[int, Moment] = {}

    async def take(self, step: Step[State]) -> bool:
        """Take a step; False: what it is about is named otherwise in reality, the walk ends."""
        if step.name == "lease":
            found = await self._lease(step)
            if found is None:
                return False
            step = found
        else:
            effect: Callable[[State, State], Awaitable[Any]] = getattr(self, "_" + step.name)
            if await effect(self.state, step.after) is False:
                return False
        self.path.append(step.name)
        before, self.state = self.state, step.after
        for mark in self.state.runs[len(before.runs) :]:
            self.real.marks.append(self._mark(mark))
        places = [
            p
            for p in range(len(self.real.parts))
            if before.partitions[p] != self.state.partitions[p] or self.random.random() < 0.1
        ]
        await assert_same(self, places)
        return True

    def version(self, version: model.Version) -> tuple[int, int]:
        """Return the real version of a version of the model."""
        if version == model.NEVER:
            return 0, 0
        return self.real.parts[COORDINATOR].epochs[version.life], version.number

    def _mark(self, mark: model.Mark) -> CoordinatorMark:
        epoch = self.real.parts[COORDINATOR].epochs[mark.life]
        if mark.kind == "life":
            return CoordinatorMark(kind="life", redis_epoch=epoch)
        offset = mark.offset + (mark.kind == "stop")
        return CoordinatorMark(
            kind=_KINDS[mark.kind],
            redis_epoch=epoch,
            crawl=self.real.crawl,
            generation=mark.generation,
            run=mark.run,
            positions={PLACE: offset},
            at_ms=mark.offset,
        )

    def _note(self, mark: model.Mark) -> ToNote:
        epoch = self.real.parts[COORDINATOR].epochs[mark.life]
        return ToNote(self.real.crawl, mark.generation, "stopped", epoch)

    # The coordinator.

    async def _enroll(self, before: State, after: State) -> None:
        offset = before.registry.position
        noted = [self._note(m) for m in before.runs if m.kind == "stop" and m.offset == offset]
        batch = self.real.batch(offset, offset + 1)
        coordinator = self.real.parts[COORDINATOR].coordinator
        done = await coordinator.enroll(batch, {offset: noted[-1]} if noted else {})
        if after.registry.position == offset:
            assert done.note
            assert done.note.generation == after.runs[-1].generation
            return
        assert done.note is None
        self._check_stamps(before, after, done.stamps)

    _skip = _stop = _note_stop = _enroll

    async def _repeat_stamp(self, before: State, after: State) -> None:
        (stamp,) = after.stamps - before.stamps
        batch = self.real.batch(stamp.offset, stamp.offset + 1)
        done = await self.real.parts[COORDINATOR].coordinator.enroll(batch)
        self._check_stamps(before, after, done.stamps)

    def _check_stamps(self, before: State, after: State, stamps: Mapping[int, Stamp]) -> None:
        new = {stamp.offset: stamp for stamp in after.stamps - before.stamps}
        for offset, stamp in stamps.items():
            if (expected := new.get(offset)) is None:
                assert stamp.generation is None  # The model does not even stamp it.
                continue
            assert stamp.generation == expected.generation, (stamp, expected)
            if stamp.generation is not None:
                assert stamp.version == self.version(expected.version)
            self.stamps[expected] = stamp

    async def _publish_ending(self, _before: State, _after: State) -> None:
        """Do nothing yet: the process that publishes may take long."""

    _append_ending = _publish_ending

    async def _ending_is_published(self, before: State, _after: State) -> None:
        assert before.registry.owed
        await self.real.parts[COORDINATOR].coordinator.published(
            self.real.crawl, before.registry.owed.run
        )

    async def _restore(self, before: State, _after: State) -> None:
        epoch = self.real.parts[COORDINATOR].epochs[before.version.life]
        marks = survivors((COORDINATOR, mark) for mark in self.real.marks)
        assert await self.real.parts[COORDINATOR].coordinator.restore(epoch, marks)

    async def _label_ended(self, before: State, after: State) -> None:
        (tell,) = before.registry.tell - after.registry.tell
        coordinator = self.real.parts[COORDINATOR].coordinator
        (real,) = [
            told
            for told in await coordinator.changes()
            if (told.partition, told.context.generation) == (tell.partition, tell.generation)
            and told.version == self.version(tell.version)
        ]
        assert real.is_dead == (tell.generation < before.registry.generation)
        (told,) = await self.real.parts[tell.partition].contexts.deliver([real])
        assert await coordinator.acknowledge([told]) == told.is_drained
        if not told.is_drained:  # The model has no more to do with it.
            await coordinator.acknowledge([told._replace(is_drained=True)])

    # Labels.

    async def _ask(self, before: State, after: State) -> None:
        (asked,) = after.questions - before.questions
        question = Question(self.real.context(asked.generation))
        part = self.real.parts[asked.partition]
        look = await part.contexts.look([question.context])
        assert not look.reports[0].is_leasable
        wanted = await self.real.wanted(asked.partition)
        self.questions[asked] = question._replace(profiles=wanted)

    async def _labels(self, before: State, after: State) -> None:
        (asked,) = before.questions - after.questions
        (label,) = await self.real.parts[COORDINATOR].coordinator.labels(
            [self.questions.pop(asked)]
        )
        (answer,) = after.answers - before.answers
        assert (label.run, label.state == "dead") == (answer.run, answer.is_dead)
        assert label.version == self.version(answer.version)
        self.answers[asked] = label

    async def _label(self, before: State, after: State) -> None:
        (answer,) = before.answers - after.answers
        part = self.real.parts[answer.question.partition]
        epoch = part.epochs[answer.question.life]
        await part.contexts.label(epoch, [self.answers.pop(answer.question)])

    # Reading.

    async def _take(self, before: State, after: State) -> None:
        (stamp,) = before.stamps - after.stamps
        place = self.real.cluster.places[self.real.cluster.incoming[stamp.offset]]
        end = after.partitions[place].seeds_position
        await self.real.take(place, stamp.offset, end, self.stamps.pop(stamp))

    async def _apply(self, before: State, after: State) -> None:
        for place, (was, is_) in enumerate(zip(before.partitions, after.partitions, strict=True)):
            if was.links_position != is_.links_position:
                await self.real.apply(place, was.links_position)

    # Working.

    async def _lease(self, step: Step[State]) -> Step[State] | None:
        """Reality decides which page it is; it must be one that the model would give as well."""
        worker = _worker_of(self.state, step.after)
        job = step.after.jobs[worker]
        assert job
        for _ in range(_TRIED):
            if given := await self.real.lease(job.partition):
                break
            await self.real.parts[job.partition].advance(6_000)
        else:
            raise AssertionError(f"{step.url} is not given to a worker")
        work, url = given
        for other in self.crawl.steps(self.state):
            if other.name == "lease" and other.url == url:
                same = other.after.jobs[worker]
                if same and (same.partition, same.generation) == (job.partition, work.generation):
                    origin = work.session.origin(work.lease.token)
                    assert origin
                    assert origin.version == self.version(same.version)
                    assert work.lease.run == self._label_of(same)
                    self.jobs[worker] = work
                    key = work.generation, url, worker
                    self.real.parts[job.partition].holders[key] = work.name
                    return other
        raise AssertionError(f"{url} must not be given to a worker")

    def _label_of(self, job: model.Job) -> int:
        return self.state.partitions[job.partition].contexts[job.generation].label

    async def ask_coordinator(self) -> None:
        """A coordinator answers if it has been restored in this life, and only then."""
        coordinator = self.real.parts[COORDINATOR].coordinator
        try:
            await coordinator.labels([])
            await coordinator.quiet(0)
            await coordinator.changes()
        except NotRestored:
            assert self.state.registry.restored != self.state.partitions[COORDINATOR].life
        else:
            assert self.state.registry.restored == self.state.partitions[COORDINATOR].life

    async def lease_nothing(self, place: int) -> None:
        """Assert that a partition grants no lease where the model grants none."""
        assert await self.real.lease(place) is None

    def _children(self, url: str, place: int) -> frozenset[str]:
        cluster = self.real.cluster
        return frozenset(u for u in cluster.links.get(url, ()) if cluster.places[u] == place)

    async def _publish(self, before: State, after: State) -> None:
        worker = _worker_of(before, after)
        job = before.jobs[worker]
        assert job
        places = range(len(self.real.parts))
        children = {place: self._children(job.url, place) for place in places}
        await self.real.publish(self.jobs[worker], job.partition, children)
        assert [*map(len, self.real.logs)] == [*map(len, after.links)]

    async def _settle(self, before: State, after: State) -> bool | None:
        worker = _worker_of(before, after)
        job, work = before.jobs[worker], self.jobs[worker]
        assert job
        holders = self.real.parts[job.partition].holders
        key = job.generation, job.url, worker
        is_held = (job.url, worker) in before.partitions[job.partition].contexts[
            job.generation
        ].held
        if is_held and holders[key] != work.name:
            return False  # An earlier lease of this page by this worker came back.
        own = self._children(job.url, job.partition)
        assert await self.real.settle(work, own, job.need) == is_held
        if is_held:
            del holders[key]
        del self.jobs[worker]
        return None

    # Endings.

    async def _look(self, _before: State, after: State) -> None:
        (self.look,), _ = await self.real.parts[COORDINATOR].coordinator.quiet(0)
        assert after.look
        assert self.look.version == self.version(after.look.version)
        assert self.look.run == after.look.run
        self.looks = []

    async def _idle(self, before: State, after: State) -> None:
        assert before.look
        place = len(before.look.reports)
        look = await self.real.parts[place].contexts.look(
            [self.real.context(before.look.generation)]
        )
        self.looks.append(look)
        is_dead = before.partitions[place].contexts[before.look.generation].is_dead
        assert is_dead or look.reports[0].is_idle == (after.look is not None)

    _not_idle = _idle

    async def _finish(self, before: State, after: State) -> None:
        assert self.look
        assert is_over(self.look, self.looks, 0, LINKS, coordinator=0)
        ledger = summed(self.look, self.looks, 0)
        assert not Counter(ledger)["queued"] + Counter(ledger)["held"]
        assert await self.real.parts[COORDINATOR].coordinator.finish(self.look, ledger)
        assert after.registry.owed

    async def _give_up(self, _before: State, _after: State) -> None:
        assert self.look
        if is_over(self.look, self.looks, 0, LINKS, coordinator=0):
            assert not await self.real.parts[COORDINATOR].coordinator.finish(self.look, {})

    # Faults.

    async def _reap(self, before: State, after: State) -> None:
        place, generation = next(
            (place, generation)
            for place, partition in enumerate(before.partitions)
            for generation, context in enumerate(partition.contexts)
            if context.held != after.partitions[place].contexts[generation].held
        )
        was = before.partitions[place].contexts[generation].held
        ((url, worker),) = was - after.partitions[place].contexts[generation].held
        await self.real.reap(place, generation, url, worker)

    async def _die(self, before: State, after: State) -> None:
        del self.jobs[_worker_of(before, after)]

    async def _freeze(self, before: State, after: State) -> None:
        (place,) = _changed(before.snapshots, after.snapshots)
        self.moments[place] = await self.real.parts[place].moment()

    async def _crash(self, before: State, after: State) -> None:
        (place,) = _changed(before.lives, after.lives)
        await self.real.parts[place].go_back(self.moments.pop(place, None), after.lives[place])


def _worker_of(before: State, after: State) -> int:
    (worker,) = _changed(before.jobs, after.jobs)
    return worker


def _changed(before: tuple[object, ...], after: tuple[object, ...]) -> list[int]:
    pairs = zip(before, after, strict=True)
    return [n for n, (was, is_) in enumerate(pairs) if was != is_]

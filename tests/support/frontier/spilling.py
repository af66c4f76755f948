"""The part of random lives in which links are spilled and come back."""

from __future__ import annotations

from crawlstream.model.effects import Links, Settle
from support.frontier.bench import KEYS, Worker, entry_of
from support.frontier.life import Life, Part
from support.frontier.values import Found, Generation, Held, Item, Spilled
from support.spilling import Spills


class Spilling(Part):
    """A topic of records, and what the model knows of them."""

    def __init__(self, life: Life) -> None:
        super().__init__(life)
        self._topic = Spills(self.bench.frontier.overflow)
        self._sent: list[Spilled] = []
        self._untold: dict[tuple[str, str], Settle] = {}
        self.passed = -1
        """Up to when what was spilled is behind recall, as the frontier knows."""

    def maybe(self, worker: Worker, held: Held, settle: Settle) -> Settle | None:
        """Sometimes spill its links, and return the settle without them, now or later.

        Or Kafka has them, without the worker's knowledge; or it has them twice.
        """
        name = (worker.name, settle.token)
        if name in self._untold:
            return self._untold.pop(name)
        chance = self.random.random()
        if chance > 0.35:
            return settle
        told = self._send(worker, held.item.of, settle)
        if chance > 0.3:
            return settle
        if chance > 0.15:
            self._untold[name] = told
            return None
        return told

    def _send(self, worker: Worker, of: Generation, settle: Settle) -> Settle:
        told = self._topic.send(worker, settle)
        if told.spilled:
            groups = [
                (children_of(group, of), Found(group.counts, standing=group.standing))
                for group in settle.links
            ]
            filled = [group for group in groups if group[0]]
            record = Spilled(of, of.run, worker.name, settle.token, 0, filled)
            times = self.random.choice((1, 2))
            self._topic.records += self._topic.records[-1:] * (times - 1)
            self._sent += [record] * times
        return told

    @property
    def is_left(self) -> bool:
        """Return whether any spilled link has not been recalled."""
        return self._topic.next < len(self._sent)

    async def recall(self) -> None:
        """The next records, up to three, come back."""
        due = self._sent[self._topic.next :][: self.random.randint(1, 3)]
        done = await self._topic.recall(len(due))
        says = [self.model.recall(record) for record in due]
        assert (done.applied, done.ignored) == (sum(says), len(says) - sum(says))
        await self.settle_up()

    async def lose(self) -> None:
        """Kafka has lost a few of the next records; what it has left is not met until later."""
        overflow, moment = self._topic.overflow, await self._topic.overflow.moment()
        end = len(self._topic.records)
        lost = min(self.random.randint(0, 3), end - self._topic.next)
        await self._topic.skip(lost)
        is_passed = self._topic.next == end
        assert await overflow.passed(moment, "spills", {0: end}) == is_passed
        await self.redis.hset(KEYS.meta(), "watch_at", 0)
        self.model.expire_late()
        if is_passed:
            self.passed = moment.clock_ms

    async def repeat(self) -> None:
        """The answer to the last records was lost; they change nothing a second time."""
        back = self.random.randint(0, min(2, self._topic.next))
        self._topic.next -= back
        done = await self._topic.recall(back)
        assert (done.applied, done.ignored) == (0, 0)


def children_of(group: Links, of: Generation) -> list[tuple[str, Item]]:
    """The fingerprints and items of a group of links."""
    assert group.spiderid is not None
    return [
        (
            mark,
            Item(url, None, group.spiderid, group.domain, group.priority, of, depth=depth),
        )
        for mark, entry in zip(group.fingerprints, group.entries, strict=True)
        for url, _, depth in [entry_of(entry)]
    ]

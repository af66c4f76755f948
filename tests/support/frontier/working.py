"""The part of random lives in which workers lease, and report what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from crawlstream.keys import encode_id
from crawlstream.model.crawl import Lease
from crawlstream.model.effects import (
    FOUND,
    FOUND_EARLY,
    UNSENT,
    ExchangeResult,
    Links,
    Outcome,
    Release,
    Requeue,
    SentRequest,
    Settle,
)
from crawlstream_frontier.link_rules.host_budgets import raised
from crawlstream_frontier.link_rules.promotion import is_promoted, unpromoted
from crawlstream_frontier.waste.last_band import last_of, lifted
from support.frontier import bench as support
from support.frontier.bench import KEYS, Worker
from support.frontier.life import Life, Part
from support.frontier.model import DEADLINE_MS
from support.frontier.shelving import Shelving
from support.frontier.spilling import Spilling, children_of
from support.frontier.values import Found, Held, grant_order
from support.frontier.world import DEPTHS, DOMAINS, SHARED, UNKNOWN, Told
from support.scores.hosting import standing_of
from support.scores.promoting import check_nothing_better, claim_of, end_copies, note_risen


class Working(Part):
    """A few workers at a time."""

    def __init__(self, life: Life, spilling: Spilling, shelving: Shelving) -> None:
        super().__init__(life)
        self._spilling = spilling
        self._shelving = shelving
        self._born = 0
        self._sizes = Random(repr(self.random.getstate()) + "sizes")
        self._places = Random(repr(self.random.getstate()) + "places")
        self._spares = Random(repr(self.random.getstate()) + "spares")
        self._depths = Random(repr(self.random.getstate()) + "depths")
        self._others = Random(repr(self.random.getstate()) + "others")
        self._packed: dict[str, tuple[Sequence[Links], int]] = {}
        """Links of a settle that its worker has sent, and how many it has left out, by token."""
        self._repeated: set[str] = set()
        """Tokens of settles that Redis asked for again, as it was restarted since."""
        self._risen: set[str] = set()
        """Domains that may rank too low until their next turn."""
        self._used: list[Callable[[], None]] = []
        """Counts of the pages of a call, which take effect after their links."""

    async def exchange(self) -> None:
        """A worker reports some of its pages, and leases."""
        worker = self._worker()
        told = self._tell(worker)
        self._repeated.clear()
        want = self.random.choice(self.world.wanted)
        spares = self._spares_of(worker)
        answer = await worker.exchange(**vars(told), want=want, spares=spares)
        assert answer.stale == told.ended - {*self.model.leases.get(worker.name, {})}
        await self._after_exchange(worker, told, answer, want)
        # A page that Redis requested again had a call of its own, which would be the repeated one.
        if self.random.random() < 0.15 and not self._repeated:
            await self._repeat_exchange(worker, told, answer, want=want)

    def _spares_of(self, worker: Worker) -> dict[str, int]:
        """Return requests of spare entries, of few calls."""
        chance, amount = self._spares.random, self._spares.choice
        names = self.world.domains[worker.spiderid] if chance() < 0.3 else ()
        return {name: amount((1, 3, 40)) for name in names if chance() < 0.7}

    def _worker(self) -> Worker:
        if not self.workers or (len(self.workers) < 4 and self.random.random() < 0.1):
            self._born += 1
            name = f"w{self._born}"
            self.workers[name] = self.bench.another_worker(
                name, self.random.choice((*self.world.domains,))
            )
            self._watch_settles(self.workers[name].session)
        return self.random.choice(list(self.workers.values()))

    def _watch_settles(self, session: Any) -> None:
        """Note what the worker leaves out, and what it has to say again."""
        exchange, children = session.exchange, session._children
        leave_out, told = children._leave_out_known, set[str]()

        def leave_out_and_note(settle: Settle) -> tuple[Sequence[Links], int]:
            packed: tuple[Sequence[Links], int] = leave_out(settle)
            self._packed[settle.token] = packed
            return packed

        async def exchange_and_note(**what: Any) -> ExchangeResult:
            tokens = {settle.token for settle in what.get("settles", ())}
            self._packed.update(dict.fromkeys(tokens, ((), 0)))
            self._repeated |= tokens & told
            told.update(tokens)
            answer: ExchangeResult = await exchange(**what)
            told.clear()
            return answer

        session.exchange, children._leave_out_known = exchange_and_note, leave_out_and_note

    def _tell(self, worker: Worker) -> Told:
        told, chance = Told(), self.random.random
        sent_ms = self.random.choice((None, 0, 3, 400))
        for token, held in self.model.leases.get(worker.name, {}).items():
            if chance() < 0.4 and sent_ms is not None:
                told.sent.append(SentRequest(token, sent_ms, chance() < 0.5))
            delay_ms = self.random.choice((0, 0, 700))
            fate = chance()
            if fate < 0.5:
                settle = self._spilling.maybe(worker, held, self._settle(token, held))
                told.settles += [settle] if settle else []
            elif fate < 0.58:
                told.requeues.append(Requeue(token=token, delay_ms=delay_ms, sent_ms=sent_ms))
            elif fate < 0.66:
                how: Any = {"delay_ms": delay_ms, "sent_ms": sent_ms, "gate": self._found_at()}
                how["spiderid"] = self._handed_to(held)
                told.releases.append(Release(token=token, **how))
        if chance() < 0.2:
            links = [support.links(self.random.choice(DOMAINS[worker.spiderid]), [0, 1])]
            told.settles.append(
                Settle(token=self._stale(worker), outcome=Outcome.DONE, links=links)
            )
        return told

    def _found_at(self) -> str | None:
        """Return the gate of an address at which a worker may find a domain; None: it has none."""
        places = self.model.gates.places
        return (
            self._places.choice(("", *places)) if places and self._places.random() < 0.6 else None
        )

    def _handed_to(self, held: Held) -> str | None:
        """Return the spider that an entry waits for after its release; None: the same one."""
        is_shared = held.item.domain == SHARED and self._others.random() < 0.5
        return self._others.choice((*DOMAINS,)) if is_shared else None

    def _stale(self, worker: Worker) -> str:
        """A token without a lease of the worker: the lease is over, or never was."""
        gone = worker.leases.keys() - self.model.leases.get(worker.name, {}).keys()
        return self.random.choice([UNKNOWN, *sorted(gone)])

    def _settle(self, token: str, held: Held) -> Settle:
        outcome = self.random.choice((Outcome.DONE, Outcome.DONE, *Outcome))
        reason = self.random.choice(("", "2xx", "other"))
        if outcome is Outcome.SKIPPED:
            return Settle(token=token, outcome=outcome, reason=reason, sent_ms=UNSENT)
        return Settle(
            token=token,
            outcome=outcome,
            reason=reason,
            links=[self._links(held) for _ in range(self.random.choice(self.world.groups))],
            filtered=self.random.choice(({}, {"depth": 3, "regex": 1})),
            dropped=self.random.choice((None, None, "noindex", "reserved")),
            is_reserved=self.random.random() < 0.2,
            body_bytes=self._sizes.choice((0, 50, 100, 250)),
        )

    def _links(self, held: Held) -> Links:
        spider = held.item.spider
        if self.random.random() < 0.1:
            spider = self.random.choice((*self.world.domains,))
        own, score = lifted(held.item.priority), self.world.scores[held.item.of.crawl]
        standing = standing_of(held.item, self.world.host_budgets[held.item.of.crawl])
        priority = (raised(unpromoted(own)) if standing else unpromoted(own)) - 10
        paths = [
            self.random.randrange(self.world.paths)
            for _ in range(self.random.choice(self.world.links))
        ]
        group = support.links(
            self.random.choice(self.world.domains[spider]),
            paths,
            priority=last_of(priority) if self.random.random() < 0.15 else priority,
            spiderid=spider,
            counts=self.random.random() < 0.9,
            linked=(FOUND_EARLY if is_promoted(own) else FOUND) if score else 0,
            depth=self._depths.choice(DEPTHS),
        )
        if standing and group.counts:
            group.standing = standing.to(group.domain)
        return group

    async def _after_exchange(
        self, worker: Worker, told: Told, answer: ExchangeResult, want: int
    ) -> None:
        now = self.redis.now
        name, model = worker.name, self.model
        model.deadlines[name] = now + DEADLINE_MS
        again = [settle for settle in told.settles if settle.token in self._repeated]
        once = [settle for settle in told.settles if settle not in again]
        self._apply_told(name, replace(told, settles=once), now)
        if want:
            model.promote_delayed(worker.spiderid, now)
        self._check_grants(worker, answer, want, now)
        await self._end_copies()
        model.look_at_budgets()
        self._apply_told(name, Told(settles=again), now)
        await self.settle_up()

    def _apply_told(self, name: str, told: Told, now: int) -> None:
        model, leases = self.model, self.model.leases.get(name, {})
        for sent in told.sent:
            model.report(leases[sent.token], now, sent.after_ms)
            leases[sent.token].is_received |= sent.received
        for settle in told.settles:
            if settle.token in leases:
                self._apply_settle(name, settle, now)
        for use in self._used:
            use()
        self._used.clear()
        for requeue in told.requeues:
            item = model.end(name, requeue.token, now, requeue.sent_ms)
            item.retries, item.priority = item.retries + 1, item.priority - 10
            model.put_back(item, now, requeue.delay_ms, in_front=False)
        for release in told.releases:
            item = model.end(name, release.token, now, release.sent_ms)
            if release.gate is not None:
                model.gates.locate(item.domain, release.gate)
            item.spider = release.spiderid or item.spider
            is_in_front = release.spiderid is None
            model.put_back(item, now, release.delay_ms, in_front=is_in_front)

    def _apply_settle(self, worker: str, settle: Settle, now: int) -> None:
        held = self.model.leases[worker][settle.token].item
        generation = held.of
        links, left_out = self._packed.get(settle.token, ((), 0))
        for group in links:
            linked = group.linked * group.counts
            found = Found(group.counts, linked, group.standing, held.domain)
            self.model.admit_links(children_of(group, generation), found)
        generation.filtered += Counter(duplicate=left_out)
        self.model.register(worker, settle.token, settle.spilled, now)
        generation.filtered.update(settle.filtered)
        generation.bodies.update([f"d:{settle.dropped}"] if settle.dropped else ())
        generation.bodies.update(["r:reserved"] if settle.is_reserved else ())
        self.model.end(worker, settle.token, now, settle.sent_ms)
        generation.ledger[settle.outcome.value] += 1
        generation.ledger["bytes"] += settle.body_bytes
        most = self.world.domain_bytes[generation.crawl]
        if most and settle.outcome is not Outcome.SKIPPED and held.domain != "::1":
            ends = [settle.outcome is Outcome.DONE, settle.outcome is Outcome.FAILED]
            used = [settle.body_bytes, *map(int, ends)]
            self._used.append(partial(generation.use, held.domain, used, most))
        if settle.outcome is Outcome.SKIPPED and settle.reason:
            generation.skipped[settle.reason] += 1

    def _check_grants(self, worker: Worker, answer: ExchangeResult, want: int, now: int) -> None:
        assert len(answer.leases) <= want
        for lease in sorted((*answer.leases, *answer.spares), key=_grant_order):
            self.model.take(worker.name, worker.spiderid, lease, now)
            item = self.model.leases[worker.name][lease.token].item
            assert bool(lease.spent_budget) == (item.domain in item.of.spent), (lease, item.of)
        names = set(DOMAINS[worker.spiderid]) - {SHARED}
        checked = names - self._risen
        held = self.model.leases.get(worker.name, {})
        items = [held[lease.token].item for lease in answer.leases]
        spares = [held[lease.token].item for lease in answer.spares]
        note_risen(self.model, worker.spiderid, [*items, *spares], self._risen)
        if want and len(answer.leases) == want:
            worst = min(claim_of(item.priority) + item.of.shift for item in items)
            check_nothing_better(self.model, worker.spiderid, checked - self._risen, now, worst)
        elif want and answer.next_due_ms != 0:
            check_nothing_better(self.model, worker.spiderid, names, now, -1_000)

    async def _end_copies(self) -> None:
        """End entries of promoted pages that Redis has reached and dropped, and no others."""
        for (spider, domain), queues in self.model.queues.items():
            for (of, priority), queue in queues.items():
                if queue and queue[0].is_over:
                    tag = f"{self.life.numbers[of]}/{priority}"
                    name = f"{encode_id(spider)}:{tag}:{domain}"
                    end_copies(self.model, queue, len(queue) - await self._length_of(name))

    async def _length_of(self, band: str) -> int:
        redis, tag = self.redis, KEYS.tag
        chunks = await redis.lrange(f"{tag}bc:{band}", 0, -1)
        lists = [await redis.llen(f"{tag}{letter}:{band}") for letter in ("b", "bt")]
        return sum(lists) + sum(int(chunk.split()[1]) for chunk in chunks)

    async def _repeat_exchange(
        self, worker: Worker, told: Told, before: ExchangeResult, *, want: int
    ) -> None:
        """The answer was lost: the same call again ends nothing twice and grants the same."""
        worker.session._call -= 1
        answer = await worker.exchange(**vars(replace(told, sent=[])), want=want)
        assert told.ended <= answer.stale
        if before.leases:
            assert [h.token for h in answer.leases] == [h.token for h in before.leases]
            assert [h.token for h in answer.spares] == [h.token for h in before.spares]
            answer, want = replace(answer, leases=(), spares=()), 0
        await self._after_exchange(worker, Told(), answer, want)

    async def drain(self, worker: Worker) -> None:
        """Lease and settle until nothing is left."""
        self.workers[worker.name] = worker
        self._watch_settles(worker.session)
        for _ in range(2_000):
            answer = await worker.exchange(want=50)
            await self._after_exchange(worker, Told(), answer, 50)
            if answer.leases:
                told = Told(settles=[_done(lease) for lease in answer.leases])
                await self._after_exchange(worker, told, await worker.exchange(**vars(told)), 0)
            elif any(
                not head for (of, *_), head in self.model.heads.items() if of == worker.spiderid
            ):
                await self._shelving.bring()
            elif answer.next_due_ms is None:
                return
            else:
                await self.redis.advance(max(answer.next_due_ms, 1))
        raise AssertionError("something is never due")


def _grant_order(lease: Lease) -> tuple[int, int]:
    return grant_order(lease.token)


def _done(lease: Lease) -> Settle:
    return Settle(token=lease.token, outcome=Outcome.DONE, reason="2xx", sent_ms=0)

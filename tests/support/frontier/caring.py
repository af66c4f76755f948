"""The part of random lives in which workers end, and their pages are recovered."""

from __future__ import annotations

from typing import Any

from crawlstream_frontier.codec.values import unpack
from crawlstream_frontier.revocation import MAX_HOLD_MS
from support.frontier.bench import DEDUPE_MS, KEYS
from support.frontier.life import Life, Part
from support.frontier.spilling import Spilling
from support.frontier.world import HOUR_MS, UNKNOWN


class Caring(Part):
    """A redis-monitor, and workers that need one."""

    def __init__(self, life: Life, spilling: Spilling) -> None:
        super().__init__(life)
        self._spilling = spilling
        self._reaped: list[tuple[str, int]] = []
        self._watch_scripts()

    def _watch_scripts(self) -> None:
        """Note which workers are reaped, and exactly when; queue what `tend` has queued."""
        scripts: Any = self.bench.frontier.scripts
        run = scripts.run

        async def run_and_note(operation: str, *args: Any) -> object:
            answer = await run(operation, *args)
            if operation == "reap":
                now = self.redis.now
                self._reaped.append((unpack(answer)[0].decode(), now))
            elif operation == "tend":
                for spider in {item.spider for *_, item in self.model.delayed}:
                    self.model.promote_delayed(spider, self.redis.now)
            return answer

        scripts.run = run_and_note

    async def tend(self) -> None:
        """Endings, reaping, sweeping."""
        before = self.redis.now
        self.model.expire_late()
        self.model.end_pauses(before)
        self._reaped.clear()
        await self.bench.tend()
        for name, at in self._reaped:
            assert self.model.deadlines[name] <= at, ("reaped too early", name)
            self.model.reap(name, at)
        assert all(at > before for at in self.model.deadlines.values()), "not reaped"
        if await self._is_watched(before):
            self.model.lose_spills(self._spilling.passed)
        await self.settle_up()
        for generation in self.model.overdue(before):
            raise AssertionError(("not ended", generation))
        await self._sync_forgotten()

    async def _is_watched(self, since: int) -> bool:
        """True: `watch` has looked at all runs since then."""
        at = int(await self.redis.hget(KEYS.meta(), "watch_at") or 0)
        return at >= since + HOUR_MS

    async def _sync_forgotten(self) -> None:
        """Learn which finished crawls have lost their dedupe, none of them too early."""
        if not (latest := list(self.model.latest.items())):
            return
        texts: list[Any] = await self.redis.hmget(
            KEYS.names(), [KEYS.crawl_field(crawl) for crawl, _ in latest]
        )
        for (crawl, generation), text in zip(latest, texts, strict=True):
            if generation.takes_seeds and (text is None or text.endswith(b" 0")):
                assert generation.state == "finished"
                passed, kept = self.redis.now - generation.ended_at, generation.remember
                assert passed >= DEDUPE_MS if kept is None else passed >= kept * 1000
                generation.takes_seeds = False
            if text is None:
                self.model.forget(crawl)

    async def crash(self) -> None:
        """A worker dies; sometimes its successor reports it and blames a page."""
        if not self.workers:
            return
        name = self.random.choice(list(self.workers))
        worker = self.workers.pop(name)
        if self.random.random() < 0.5:
            return
        blamed = self.random.choice([*self.model.leases.get(name, {}), ""])
        returned = await worker.session.blame(name, blamed)
        now = self.redis.now
        assert returned == self.model.reap(name, now, blamed)
        await self.settle_up()

    async def retire(self) -> None:
        """A worker ends in good order."""
        if not self.workers:
            return
        name = self.random.choice(list(self.workers))
        worker = self.workers.pop(name)
        tokens = set(self.model.leases.get(name, {}))
        assert await worker.session.retire() == len(tokens)
        now = self.redis.now
        self.model.retire(name, now, tokens)
        self.model.forget_worker(name)
        await self.settle_up()

    async def reconcile(self) -> None:
        """A worker has forgotten some leases, or has had some for too long."""
        if not self.workers:
            return
        worker = self.random.choice(list(self.workers.values()))
        leases = self.model.leases.get(worker.name, {})
        alive = {token for token in leases if self.random.random() < 0.6}
        if self.random.random() < 0.2:
            await self.redis.advance(MAX_HOLD_MS)
        lost = await worker.session.reconcile([*alive, UNKNOWN])
        now = self.redis.now
        old = {t for t, held in leases.items() if now - held.since > MAX_HOLD_MS}
        assert set(lost) == {UNKNOWN, *(old & alive)}
        self.model.reconcile(worker.name, now, old | {t for t in leases if t not in alive})
        await self.settle_up()

"""The part of random lives that happens around the frontier: time, rules, restarts."""

from __future__ import annotations

import time
from random import Random

from crawlstream.model.throttle_table import ThrottleRule
from support.frontier import bench as support
from support.frontier.bench import KEYS
from support.frontier.life import Life, Part
from support.frontier.world import DOMAINS, MOST_GAINED_MS, RULES, STEPS_MS
from support.gates.gating import NAMES, NONE, some_groups


class Surroundings(Part):
    """The clocks, the table of rules, and Redis itself."""

    def __init__(self, life: Life) -> None:
        super().__init__(life)
        self._default = support.WIDE_OPEN
        self._rules: dict[str, ThrottleRule] = {}
        self._groups = NONE
        self._grouping = Random(repr(self.random.getstate()) + "groups")
        self._nobody = self.bench.frontier.session("nobody", "link")

    async def pass_time(self) -> None:
        """Some time passes; seldom very much."""
        await self.redis.advance(self.random.choice((50, 300, 1_100, 3_500, 16_000, 70_000)))

    async def change_rules(self) -> None:
        """Another table rules."""
        if self.random.random() < 0.3:
            self._default = self.random.choice(RULES[:-1])
        else:
            spider = self.random.choice((*self.world.domains,))
            domain = self.random.choice(self.world.domains[spider])
            self._rules[domain] = self.random.choice(RULES)
        await self._regroup()

    async def _regroup(self) -> None:
        """Let other groups rule, or none."""
        # With groups, workers look up the site of each URL, and one with this host is none.
        has_odd = any("::1" in names for names in self.world.domains.values())
        if self._grouping.random() < 0.5 and not has_odd:
            self._groups = some_groups(self._grouping)
        await self._rule()

    async def open_up(self) -> None:
        """Everything is allowed again."""
        self._default, self._rules, self._groups = support.WIDE_OPEN, {}, NONE
        await self._rule()

    async def _rule(self) -> None:
        await self.bench.rule(self._default, self._rules, groups=self._groups)
        now, gates = self.redis.now, self.model.gates
        self.model.default = self._default
        gates.change(self._groups)
        rules = {
            **{name: self._default for names in DOMAINS.values() for name in names},
            **{name: gates.rule_of(name, self._default) for name in NAMES},
            **self._rules,
        }
        for name, rule in rules.items():
            domain = self.model.domain(name)
            if rule != domain.rule:
                domain.rule, domain.ruled_since = rule, now

    async def restart(self) -> None:
        """Redis is another process."""
        await self.bench.pretend_restart()
        await self._nobody.beat()
        self.model.restarted_at = self.redis.now
        await self._nobody.retire()

    async def step_clock(self) -> None:
        """Redis' clock is set, forth and back, far or not: no time passes by that."""
        begun = time.monotonic()
        await self._nobody.beat()
        before = self.redis.now
        for _ in range(self.random.choice((1, 1, 3))):
            step_ms = self.random.choice(STEPS_MS) * self.random.choice((1, -1))
            await self.redis.hincrby(KEYS.meta(), "wall", -step_ms)
            teller = self._nobody
            if self.random.random() < 0.3:
                teller = self.bench.another_worker("nobody").session
            await teller.beat()
        gained = self.redis.now - before
        passed = int((time.monotonic() - begun) * 1000) + 1
        await self._nobody.retire()
        assert 0 <= gained <= passed + MOST_GAINED_MS, (gained, passed)

    async def limit(self) -> None:
        """Limit the number of entries that may wait."""
        limits = {"most_queued_of_crawl": self.world.most_of_crawl}
        self.bench.limit(**limits, most_queued=self.world.most_of_all)
        await self.bench.tend()
        if self._grouping.random() < 0.3:
            await self._regroup()

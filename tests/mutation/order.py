"""Which tests a mutant faces first: those that are likely to see it, and quick ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate
from pathlib import PurePath

RANDOM = "tests/integration/frontier/test_random.py"
"""Finds most, in a second or two."""

_NEAR = {
    "abandon": "waiting large",
    "admit": "intake waiting large spill dedupe",
    "again": "refused intake stops",
    "balance": "balance",
    "bands": "order steer wake large scopes intake",
    "beat": "workers clock",
    "bury": "workers waiting",
    "claim": "book",
    "clock": "clock throttle",
    "crawls": "endings stops intake",
    "dedupe": "dedupe known intake",
    "exchange": "lease throttle backoff known workers",
    "gated": "groups",
    "glance": "wake inspect",
    "grants": "throttle lease order",
    "found": "clock boot",
    "group": "streams",
    "guard": "store",
    "guarded": "store",
    "holds": "workers lease backoff",
    "info": "inspect listing sites",
    "inspect": "inspect",
    "intake": "intake refused stops faults positions",
    "lease": "order lease wake waiting",
    "ledger": "balance endings intake",
    "ledgers": "balance",
    "memory": "faults spill",
    "note": "book workers",
    "pass": "spill",
    "proxies": "book",
    "put": "spill dedupe",
    "reap": "workers",
    "reacted": "reserved",
    "recall": "spill",
    "reposition": "positions",
    "reserve": "reserved",
    "restore": "intake faults",
    "retire": "workers",
    "revise": "scopes sites steer",
    "revisit": "steer steps",
    "room": "spill",
    "rotate": "handshakes",
    "rules": "rules sites wake",
    "scope": "scopes",
    "seeds": "intake dedupe large",
    "spills": "spill",
    "steer": "steer stops",
    "survey": "inspect scopes",
    "sweep": "steps large endings",
    "tend": "endings steps workers",
    "throttle": "throttle backoff waiting interleavings",
    "views": "scopes",
    "walk": "steps large",
    "watch": "waiting steps spill",
}
"""By the name of a Lua file: last words of the names of the tests that are about it."""


class Order:
    """Learns from each run. New tests, which were not timed yet, come first."""

    def __init__(self, tests: Iterable[str], seconds: Mapping[str, float]) -> None:
        self.seconds = {test: seconds.get(test, 0.0) for test in tests}
        """How long each test takes without a mutant."""
        self._killers = dict[str, Counter[str]]()

    def killed(self, file: str, test: str) -> None:
        """This test has found a mutant of this file."""
        self._killers.setdefault(file, Counter())[test] += 1

    def of(self, file: str, within: float | None = None) -> list[str]:
        """All tests, or those that end ``within`` some seconds; the likeliest per second first."""
        near = _NEAR.get(PurePath(file).stem, "").split()
        killers = self._killers.get(file, Counter())

        def cost(test: str) -> float:
            name = test.split("::", 1)[0].removesuffix(".py").rsplit("_", 1)[-1]
            worth = 1 + 3 * killers[test] + (20 if name in near else 0)
            return self.seconds[test] and (self.seconds[test] + 0.05) / worth

        tests = sorted(self.seconds, key=lambda test: (not test.startswith(RANDOM), cost(test)))
        if within is None:
            return tests
        ends = accumulate(self.seconds[test] for test in tests)
        return [test for test, end in zip(tests, ends, strict=True) if end <= within]

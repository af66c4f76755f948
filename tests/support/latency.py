"""A plain model of gentle rules: latency of a site, and the spacing that it requires."""

from __future__ import annotations

from dataclasses import dataclass

HOUR_MS = 3_600_000


@dataclass
class Latency:
    """Mean and floor of the time to the first byte, in ms; written as the documentation has it."""

    gentle: float
    rule_ms: float
    """Spacing of the rule."""
    mean: float = 0
    floor: float = 0
    measures: int = 0
    at: float = 0

    def answer(self, ms: float, now: float) -> None:
        """The site has answered after so long."""
        ms = max(ms, 1)
        self.measures += 1
        if self.measures == 1:
            self.mean = ms
        elif self.measures <= 10:
            ms = min(ms, 10 * self.mean)
            self.mean = (self.mean * (self.measures - 1) + ms) / self.measures
        else:
            self.mean = 0.9 * self.mean + 0.1 * min(ms, 10 * self.mean)
        if self.measures == 10:
            self.floor = self.mean
        elif self.measures > 10:
            self.floor = min(self.floor * 1.05 ** ((now - self.at) / HOUR_MS), self.mean)
        self.at = now

    def silence(self, timeout_ms: float, now: float) -> None:
        """The site has not answered in time; it means nothing before its first answer."""
        if self.measures:
            self.answer(timeout_ms, now)

    @property
    def spacing_ms(self) -> float:
        """Least time between two requests."""
        wanted = self.mean / self.gentle
        if self.floor and self.mean > 2 * self.floor:
            wanted *= self.mean / (2 * self.floor)
        return max(min(wanted, 300_000), self.rule_ms)

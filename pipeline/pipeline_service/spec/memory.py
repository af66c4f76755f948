"""Settings of a memory of pages, and of visits to them, in the file of the pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import re2

from crawlstream.errors import ConfigError, InvalidRequest, InvalidUrl
from crawlstream.model.recurring.times import MINUTE_S, cron_problem, zone_problem
from crawlstream.model.url import domain_key, host_name
from pipeline_service.spec.changes import TEXT_STAGES, ChangesSpec, read_changes
from pipeline_service.spec.quantities import flag, known, read_duration, table, text, whole
from pipeline_service.spec.rule import BASE_S, DAY_S, POWER, Bounds, Clock, IntervalRule
from pipeline_service.spec.sinks import SQL, SqlSpec
from pipeline_service.spec.stages import StageSpec
from pipeline_service.spec.visit_requests import check_crawl

BY_TEXT, BY_BODY, BY_ITEMS = "text", "body", "items"
OWN_KEYS = ("url", "table", "migrate", "signature", "mask_digits", "keep", "changes")
_WITHOUT_CLOCK = ("per_day", "base", "power", "min", "bounds")
"""Keys that choose an interval for each page."""
_LONGEST_TABLE = 56
"""Characters of the name of a table that has an outbox: PostgreSQL takes 63, with its suffix."""
_SHORTEST_S, _LONGEST_S = 1.0, 3_650 * DAY_S
_MOST_A_DAY = 1_000_000_000
LONGEST_NAME = 33
"""Characters of a pipeline's name whose visits have a name of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesSink(SqlSpec):
    """A memory of pages in a table of PostgreSQL or SQLite."""

    table: str = "memory"
    signature: str = BY_TEXT
    """Source of the signature that changes with a page.

    It is the visible ``text``, the ``body``, a field that a stage makes, or all its ``items``.
    """
    mask_digits: bool = False
    """Digits of the text do not count."""
    keep: bool = False
    """Keep what the stages make of a page, now and before its last change."""
    changes: ChangesSpec | None = field(default=None, repr=False)
    """Events for changes; left out of ``repr`` for the digest of processes without them."""

    @property
    def digest_words(self) -> Sequence[str]:
        """Settings in the digest of its pipeline, besides those of `repr`."""
        return self.changes.digest_words if self.changes else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Visits:
    """How often pages are visited, and what that may cost."""

    per_day: int | None = None
    """Visits of all pages together, at most; None: as many as ``base`` comes to."""
    base: float = BASE_S
    """Seconds between two visits of a page that changes once a day, without ``per_day``."""
    power: float = POWER
    bounds: Sequence[Bounds] = (Bounds(),)
    in_flight: int = 10_000
    """Pages that are waited for, at most."""
    answer_within: float = 21_600.0
    """Seconds; a page without news for this time, or up to twice as long, is due again."""
    crawl: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the crawl requests that visits are."""
    cron: str | None = None
    """When all pages are visited, in place of an interval for each; five fields."""
    zone: str = "UTC"
    """Time zone of ``cron``."""

    @property
    def clock(self) -> Clock | None:
        """Times of all visits; None: each page has an interval of its own."""
        return None if self.cron is None else Clock(self.cron, self.zone)

    def rule(self, base_s: float | None) -> IntervalRule:
        """Return how often a page is visited, by the base that follows from ``per_day``."""
        if self.per_day is None:
            base_s = self.base
        elif base_s is None:
            base_s = 0.0  # As often as bounds allow, until it is known what that comes to.
        return IntervalRule(base_s=base_s, power=self.power, bounds=self.bounds, clock=self.clock)

    @property
    def look_every_s(self) -> float:
        """Return the seconds between two looks for due pages, by the shortest interval."""
        shortest_s = min(each.least_s for each in self.bounds)
        return min(max(shortest_s / 20, 1.0), 60.0)


def read_pages(table: Mapping[str, Any], where: str) -> PagesSink:
    """Read a table of TOML; ConfigError."""
    known(table, OWN_KEYS, where)
    if "url" not in table:
        raise ConfigError(
            f'{where}: missing: url = "postgresql://user@host/database" or "sqlite:///file"'
        )
    sink = PagesSink(**{key: _PAGES[key](table[key], f"{where}.{key}") for key in table})
    if sink.changes and len(sink.table) > _LONGEST_TABLE:
        raise ConfigError(
            f"{where}.table: with changes, the name has at most {_LONGEST_TABLE} characters: their"
            " table has its name and _outbox"
        )
    return sink


def memory_stages(sink: PagesSink, stages: Sequence[StageSpec], where: str) -> Sequence[StageSpec]:
    """Return the stages of a memory, with the one that finds out whether a page has changed.

    ConfigError: the sink needs stages that are not there.
    """
    has_field = any(spec.changes_rows for spec in stages)
    if sink.signature not in (BY_TEXT, BY_BODY) and not has_field:
        raise ConfigError(
            f"{where}.sink.signature: expected {BY_TEXT}, {BY_BODY}, or, of stages that make"
            f" fields, {BY_ITEMS} or one of these fields"
        )
    if sink.keep and not has_field:
        raise ConfigError(
            f'{where}.sink.keep: there is no stage that makes fields: add one, such as use = "page"'
        )
    kinds = {spec.kind for spec in stages}
    if sink.changes and sink.changes.has_diff and kinds.isdisjoint(TEXT_STAGES):
        raise ConfigError(
            f"{where}.sink.changes.diff: there is no stage that makes a text: add one, use ="
            ' "markdown" or use = "text"'
        )
    if sink.signature != BY_TEXT or "signature" in kinds:
        return stages
    options = {"simhash": False, "mask_digits": sink.mask_digits}
    return (*stages, StageSpec("signature", "signature", options))


def read_visits(value: Any, where: str) -> Visits:
    """Read a table of TOML; ConfigError."""
    told = dict(table(value, where))
    bounds = _read_bounds(told.pop("bounds", []), f"{where}.bounds")
    own: dict[str, Any] = {key: told.pop(key) for key in ("min", "max") if key in told}
    names = [each.name for each in fields(Visits)]
    known({**told, **own}, ["min", "max", *names], where)
    if "cron" in told and (clash := [k for k in _WITHOUT_CLOCK if k in table(value, where)]):
        raise ConfigError(f"{where}: cron visits all pages at its times: remove {', '.join(clash)}")
    if "zone" in told and "cron" not in told:
        raise ConfigError(f"{where}: zone is the time zone of cron: add cron, or remove it")
    made = {key: _VISITS[key](told[key], f"{where}.{key}") for key in told}
    last = _bounds(own, where, Bounds())
    filled = tuple(_bounds(each, f"{where}.bounds", last) for each in bounds)
    if "per_day" in made and "base" in made:
        raise ConfigError(f"{where}: base follows from per_day: remove one of the two")
    return Visits(**made, bounds=(*filled, last))


def _read_bounds(value: Any, where: str) -> Sequence[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ConfigError(f"{where}: expected tables, each [[{where}]] with url or domain")
    for each in value:
        known(each, ("url", "domain", "min", "max"), where)
        if not {"url", "domain"} & each.keys():
            raise ConfigError(f"{where}: expected url or domain, the pages that it applies to")
    return value


def _bounds(told: Mapping[str, Any], where: str, others: Bounds) -> Bounds:
    made = {key: _BOUNDS[key](told[key], f"{where}.{key}") for key in told}
    bounds = Bounds(
        least_s=made.get("min", others.least_s),
        most_s=made.get("max", others.most_s),
        url=made.get("url"),
        domain=made.get("domain"),
    )
    if bounds.least_s > bounds.most_s:
        raise ConfigError(f"{where}: min is more than max")
    return bounds


def _duration(value: Any, where: str) -> float:
    return read_duration(value, where, least=_SHORTEST_S, most=_LONGEST_S)


def _expression(value: Any, where: str) -> str:
    try:
        re2.compile(text(value, where))
    except re2.error as error:
        raise ConfigError(f"{where}: not an expression of RE2: {error}") from error
    return str(value)


def _domains(value: Any, where: str) -> frozenset[str]:
    is_list = isinstance(value, list) and value
    if not is_list or not all(isinstance(each, str) for each in value):
        raise ConfigError(f'{where}: expected a list of domains, such as ["example.com"]')
    return frozenset(_registrable(each, where) for each in value)


def _registrable(domain: str, where: str) -> str:
    """Return a domain as pages are counted by; ConfigError for one that no page is counted by."""
    try:
        name = host_name(domain)
    except InvalidUrl as error:
        raise ConfigError(f"{where}: {error}") from error
    if (whole := domain_key(name)) != name:
        raise ConfigError(f"{where}: {domain} is a part of {whole}: write that, or bounds by url")
    return name


def _power(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ConfigError(f"{where}: expected a number from 0 to 1")
    return float(value)


def _crawl(value: Any, where: str) -> Mapping[str, Any]:
    try:
        check_crawl(table(value, where))
    except InvalidRequest as error:
        raise ConfigError(f"{where}: {'; '.join(error.problems)}") from error
    return dict(value)


def _cron(value: Any, where: str) -> str:
    if problem := cron_problem(text(value, where), min_s=MINUTE_S):
        raise ConfigError(f"{where}: {problem}")
    return str(value)


def _zone(value: Any, where: str) -> str:
    if problem := zone_problem(text(value, where)):
        raise ConfigError(f"{where}: {problem}")
    return str(value)


_PAGES: Mapping[str, Callable[[Any, str], Any]] = {
    **{key: SQL[key] for key in ("url", "table", "migrate")},
    "signature": text,
    "mask_digits": flag,
    "keep": flag,
    "changes": read_changes,
}
_BOUNDS: Mapping[str, Callable[[Any, str], Any]] = {
    "min": _duration,
    "max": _duration,
    "url": _expression,
    "domain": _domains,
}
_VISITS: Mapping[str, Callable[[Any, str], Any]] = {
    "per_day": whole(1, _MOST_A_DAY),
    "base": _duration,
    "power": _power,
    "in_flight": whole(1, 10_000_000),
    "answer_within": lambda value, where: read_duration(value, where, least=10, most=3 * DAY_S),
    "crawl": _crawl,
    "cron": _cron,
    "zone": _zone,
}

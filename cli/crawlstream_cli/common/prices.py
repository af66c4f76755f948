"""The table of prices that ``crawlstream cost`` reads, and what is wrong with one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from crawlstream.errors import ConfigError

KINDS = ("crawler", "kafka-monitor", "redis-monitor", "rest")
"""Processes that have a price by the hour."""
_SUMS = ("total", "all")
_SECTIONS = ("hourly", "monthly", "per_million_pages")
_KEYS = ("currency", *_SECTIONS)

EXAMPLE = """\
# Prices for `crawlstream cost`, in one currency. Any key may be left out.
currency: USD

# One process of each kind, with its share of a machine, for an hour.
hourly:
  crawler: 0.04
  kafka-monitor: 0.02
  redis-monitor: 0.02
  rest: 0.01

# What costs the same whatever is crawled, under names of your own.
monthly:
  redis: 60
  kafka: 180
  zookeeper: 20

# What pages bring along, under names of your own.
per_million_pages:
  traffic: 1.80
  storage: 0.50
"""
"""A whole table; a table of your own is easiest begun with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """A table of prices, in one currency."""

    currency: str = "USD"
    hourly: Mapping[str, float] = field(default_factory=dict)
    """A process of each of :data:`KINDS`, with its share of a machine, for an hour."""
    monthly: Mapping[str, float] = field(default_factory=dict)
    """Fixed costs, independent of the crawls: Redis, Kafka, disks."""
    per_million_pages: Mapping[str, float] = field(default_factory=dict)
    """Costs of pages: traffic, storage; pools of proxies have prices of their own."""


def read_prices(text: str, source: str) -> Prices:
    """The table in a YAML text; ConfigError names ``source``, line and key of all that is wrong."""
    table = _Table(source)
    try:
        return table.read(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{source}: {_in_words(error)}") from error


def _in_words(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "it cannot be read"
    return f"line {mark.line + 1}: this is not YAML: {problem}" if mark else f"not YAML: {problem}"


class _Table:
    """A table that is being read: each key with its line, and the problems so far."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._problems: list[str] = []
        self._lines: dict[str, int] = {}
        """Where each name of an item was met."""

    def read(self, text: str) -> Prices:
        loader = yaml.SafeLoader(text)
        try:
            root = loader.get_single_node()
            found = {} if root is None else self._section(loader, root)
        finally:
            loader.dispose()
        if self._problems:
            raise ConfigError(f"{self._source}: {'; '.join(self._problems)}")
        return Prices(**found)

    def _section(self, loader: yaml.SafeLoader, root: yaml.Node) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        for key, line, node in self._pairs(root, ""):
            if key not in _KEYS:
                self._refuse(line, key, f"unknown key; allowed are {', '.join(_KEYS)}{_hint(key)}")
            elif key == "currency":
                found[key] = self._currency(loader.construct_object(node), line)
            else:
                found[key] = self._items(loader, key, node)
        return found

    def _currency(self, value: object, line: int) -> str:
        if not isinstance(value, str):
            self._refuse(line, "currency", "must be a name, such as USD")
        return str(value)

    def _items(self, loader: yaml.SafeLoader, section: str, node: yaml.Node) -> Mapping[str, float]:
        items: dict[str, float] = {}
        if loader.construct_object(node, deep=True) is None:
            return items
        for name, line, price in self._pairs(node, section):
            path = f"{section}.{name}"
            self._check_name(section, name, line)
            value = loader.construct_object(price, deep=True)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not is_number or not math.isfinite(value) or value < 0:
                self._refuse(line, path, f"must be a number from 0, such as 0.04 (got {value!r})")
            else:
                items[name] = float(value)
        return items

    def _check_name(self, section: str, name: str, line: int) -> None:
        path = f"{section}.{name}"
        if section == "hourly" and name not in KINDS:
            allowed = f"{', '.join(KINDS)}; other costs belong under monthly"
            self._refuse(line, path, f"unknown kind of process; allowed are {allowed}")
        elif name in _SUMS:
            self._refuse(line, path, "this name is kept for the sum of all: choose another")
        elif name in self._lines:
            self._refuse(line, path, f"line {self._lines[name]} has this name: choose another")
        self._lines.setdefault(name, line)

    def _pairs(self, node: yaml.Node, path: str) -> Iterator[tuple[str, int, yaml.Node]]:
        """Key, line and value of each pair of a mapping, each key once."""
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.MappingNode):
            keys = f"keys: {', '.join(_KEYS)}"
            wanted = "names with prices, such as `redis: 60`" if path else keys
            self._refuse(line, path or "the table", f"must have {wanted}")
            return
        seen: set[str] = set()
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in seen:
                self._refuse(line, f"{path}.{name}".lstrip("."), "is given twice")
            else:
                seen.add(name)
                yield name, line, value

    def _refuse(self, line: int, path: str, problem: str) -> None:
        self._problems.append(f"line {line}: {path}: {problem}")


def _hint(key: str) -> str:
    return f"; the price of a {key} belongs under hourly" if key in KINDS else ""

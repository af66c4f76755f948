"""Filters of links whose cost does not grow with their length: a client may name any number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from crawlstream.model.url import fold_host, host_of, port_of

_ORIGINS_REMEMBERED = 1_000
"""By each set of rules: a page's links lead to few."""


class HostSet:
    """The hosts of ``allowed_domains``, with those below them; ``host:port`` means that port."""

    def __init__(self, rules: Iterable[str]) -> None:
        self._ports: dict[str, set[int | None]] = defaultdict(set)
        self._covered: dict[str, bool] = {}
        for each in rules:
            host, port = _host_and_port(each)
            self._ports[host].add(port)

    def __bool__(self) -> bool:
        return bool(self._ports)

    def covers(self, url: str) -> bool:
        """Return whether an address leads there."""
        end = url.find("/", 8)
        origin = url if end < 0 else url[:end]
        verdict = self._covered.get(origin)
        if verdict is None:
            if len(self._covered) == _ORIGINS_REMEMBERED:
                self._covered.clear()
            verdict = self._covered[origin] = self._cover(host_of(url), port_of(url))
        return verdict

    def _cover(self, host: str, port: int) -> bool:
        dot = "."
        while dot:
            ports = self._ports.get(host)
            if ports and (None in ports or port in ports):
                return True
            _label, dot, host = host.partition(".")
        return False


def _host_and_port(rule: str) -> tuple[str, int | None]:
    """``host`` or ``host:port``; a host without a port means any."""
    text = rule.strip().lower()
    host, _, port = text.rpartition(":")
    if host and port.isdigit() and (":" not in host or host.endswith("]")):
        return _spelled(host), int(port)
    return _spelled(text), None


def _spelled(host: str) -> str:
    """A host as links have it, after a rule in its own script too."""
    bare = host.strip("[]").removesuffix(".")
    return bare if bare.isascii() and ":" not in bare else fold_host(bare)


class Extensions:
    """Endings of paths, as of ``deny_extensions``."""

    def __init__(self, names: Iterable[str]) -> None:
        self._plain = set()
        self._dotted: dict[int, set[str]] = defaultdict(set)
        self._last_parts = set()
        """Last parts of extensions that have a dot in them."""
        for name in names:
            if "." in name:
                self._dotted[len(name) + 1].add(f".{name}")
                self._last_parts.add(name.rpartition(".")[2])
            else:
                self._plain.add(name)

    def are_of(self, url: str) -> bool:
        """Return whether the path of a URL, without parameters behind ``;``, has one of them."""
        path = url.partition("?")[0]
        if ";" in path:
            folder, slash, name = path.rpartition("/")
            path = folder + slash + name.partition(";")[0]
        return self.end(path)

    def end(self, path: str) -> bool:
        """Return whether a path, or a URL that ends with one, has one of them."""
        _rest, dot, name = path.rpartition(".")
        name = name.lower()
        if dot and name in self._plain:
            return True
        return bool(dot) and name in self._last_parts and self._end_dotted(path.lower())

    def _end_dotted(self, path: str) -> bool:
        return any(path[-length:] in names for length, names in self._dotted.items())

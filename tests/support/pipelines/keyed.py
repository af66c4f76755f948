"""A store without transactions: Redis, one key at a time, as a search index would be used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from crawlstream.plugins.sinks import Row, SinkSpec, SinkUnavailable

_SWAP = """
local known = redis.call('HGET', KEYS[1], ARGV[1])
if known ~= ARGV[3] then return 0 end
if ARGV[2] == 'gone' then redis.call('HDEL', KEYS[1], ARGV[1])
else redis.call('HSET', KEYS[1], ARGV[1], ARGV[4]) end
return 1
"""


class KeyedSink:
    """Pages at <pipeline>:<edition>:page:<id>; texts in one hash."""

    def __init__(self, spec: SinkSpec) -> None:
        self._redis: Any = Redis.from_url(spec.options["url"], decode_responses=True)
        self._name = f"{spec.pipeline}:{spec.edition}"

    def open(self) -> None:
        """Show that Redis answers."""
        with _asked():
            self._redis.ping()

    def prove(self) -> None:
        """Show the same."""
        self.open()

    def close(self) -> None:
        """Let go of the connections."""
        self._redis.close()

    def interrupt(self) -> None:
        """Do nothing: every call is short."""

    def put(self, rows: Sequence[Row]) -> None:
        """Write rows one after the other."""
        with _asked():
            for row in rows:
                self._redis.set(f"{self._name}:page:{row.key}", row.value)

    def read(self, prefix: str) -> Mapping[str, str]:
        """Return the texts whose names begin so."""
        with _asked():
            found = self._redis.hgetall(f"{self._name}:notes")
        return {name: text for name, text in found.items() if name.startswith(prefix)}

    def swap(self, name: str, expected: str | None, text: str | None) -> bool:
        """Replace a text if it is the expected one."""
        with _asked():
            if expected is None:
                return bool(self._redis.hsetnx(f"{self._name}:notes", name, text))
            told = ["gone" if text is None else "there", expected, text or ""]
            return bool(self._redis.eval(_SWAP, 1, f"{self._name}:notes", name, *told))


def install_keyed_sink(site: Path) -> None:
    """Declare the sink as a package in a folder, as pip would."""
    info = site / "keyed-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: keyed\nVersion: 1\n")
    points = "[crawlstream.sinks]\nkeyed = support.pipelines.keyed:KeyedSink\n"
    (info / "entry_points.txt").write_text(points)


@contextmanager
def _asked() -> Iterator[None]:
    try:
        yield
    except RedisError as error:
        raise SinkUnavailable(f"Redis: {error}") from error

"""The keys of a cluster whose requests are signed, and the directory that publishes them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from pathlib import Path

from crawlstream.signing import directory
from crawlstream.signing.keys import Key, new_key
from crawlstream.wire.jsontext import dumps
from crawlstream_chaos.facts.facts import Published

AGENT = "https://bot.example"
_DAYS = 30


class KeyRing:
    """Writes what an operator writes: the key that crawlers read at their start, the directory.

    Crawlers are given one file, which gets another key. So no environment has to change.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._path, self._directory = folder / "key.pem", folder / "directory.json"
        self._numbers = itertools.count(1)
        self.key = new_key(self._path)
        self.published: list[Published] = []
        """Directories that verifiers could fetch, each from a time on."""
        self.write(self.key)
        self.note({self.key.keyid: self.key.x})

    @property
    def settings(self) -> Mapping[str, str]:
        """Settings of all processes."""
        return {
            "CRAWLSTREAM_SIGNING_KEYS": str(self._path),
            "CRAWLSTREAM_SIGNATURE_AGENT": AGENT,
            "CRAWLSTREAM_SIGNING_DIRECTORY": str(self._directory),
        }

    def new(self) -> tuple[Key, Path]:
        """Make another key, which signs nothing yet."""
        path = self._folder / f"key-{next(self._numbers)}.pem"
        return new_key(path), path

    def sign_with(self, key: Key, path: Path) -> None:
        """Let crawlers that start from now on sign with another key."""
        path.replace(self._path)
        self.key = key

    def write(self, *keys: Key) -> None:
        """Replace the directory; the first key is the one that signs."""
        made = directory.made(keys, AGENT, now=int(time.time()), days=_DAYS)
        directory.write(made, self._directory)

    def note(self, keys: Mapping[str, str]) -> None:
        """Note the keys that verifiers can fetch from now on, by their ids; other programs too."""
        noted = Published(time.monotonic() * 1000, keys)
        self.published.append(noted)
        with (self._folder / "published.jsonl").open("ab") as file:
            file.write(dumps(noted) + b"\n")

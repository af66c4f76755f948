"""Rotation of keys in three steps, a day apart, so that no verifier meets a key it does not know.

A verifier may keep the directory for a day. So a key is published a day before it signs, and for a
day after it has signed last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crawlstream.called import COMMAND
from crawlstream.signing.directory import MAX_AGE_S, Directory, Times


@dataclass(frozen=True, slots=True)
class Step:
    """The next step of a rotation."""

    sentence: str
    not_before: int = 0
    """Time before which it is too early, in seconds since 1970."""


def next_step(listed: Sequence[str], new: str, directory: Directory | None) -> Step:
    """Return what to do next, so that the key ``new`` signs and no other is listed.

    ``listed`` are the keyids of CRAWLSTREAM_SIGNING_KEYS, the first of which signs.
    """
    times = (directory.times if directory else {}).get(new, Times(0))
    if new not in listed:
        return Step(
            "Step 1 of 3: add the new key at the end of CRAWLSTREAM_SIGNING_KEYS, run `crawlstream"
            " signing directory`, and publish the file."
        )
    if not times.published:
        return Step(
            f"Step 1 of 3: run `{COMMAND} signing directory`, and publish the file: it does not"
            " have the new key yet."
        )
    if listed[0] != new:
        return Step(
            "Step 2 of 3: put the new key first in CRAWLSTREAM_SIGNING_KEYS, run `crawlstream"
            " signing directory`, publish the file, and restart the crawlers one by one.",
            times.published + MAX_AGE_S,
        )
    if not times.signs_since:
        return Step(f"Step 2 of 3: run `{COMMAND} signing directory`, and publish the file.")
    if len(listed) > 1:
        return Step(
            "Step 3 of 3: list the new key alone in CRAWLSTREAM_SIGNING_KEYS, run `crawlstream"
            " signing directory`, publish the file, and delete the old key.",
            times.signs_since + MAX_AGE_S,
        )
    return Step("Nothing is left to do: the new key signs, and no other is listed.")

"""How many partitions the frontier of a home has: chosen by its first `up`, and kept with its data.

With several, each has a Redis of its own: ``redis-0``, ``redis-1`` …, with data in a folder of that
name. With one it is ``redis``, and nothing is noted.
"""

from __future__ import annotations

from dataclasses import dataclass

from crawlstream.called import COMMAND
from crawlstream.errors import SetupError
from crawlstream_cli.local.home import Home

MOST_LOCAL = 16
"""Redis servers of one local cluster."""
_MOVE, _COPIED = "repartition", "copied"
"""The note of a move, and what it says at last."""


def redis_names(partitions: int) -> list[str]:
    """The Redis servers of a home, by the number of its partitions."""
    return ["redis"] if partitions == 1 else [f"redis-{number}" for number in range(partitions)]


def partitions_in(home: Home) -> int:
    """Return the number of partitions of the frontier in a home; one by default."""
    return _noted(home) or 1


def choose_partitions(home: Home, wanted: int | None) -> int:
    """The number that may be noted; SetupError when a frontier with another number is there.

    ``wanted`` is None for what there is.
    """
    if stage := stage_of_move(home):
        raise SetupError(
            f"the frontier in {home.path} is being moved: continue with {COMMAND} repartition"
            f" --to {stage.new}, or give it up with --cancel"
        )
    noted = _noted(home)
    if None not in (wanted, noted) and wanted != noted:
        raise SetupError(
            f"the frontier in {home.path} has {noted} partition{'s' if noted != 1 else ''}, which"
            f" cannot be changed to {wanted} by up: start it without --partitions and use"
            f" {COMMAND} repartition --to {wanted}, or set CRAWLSTREAM_HOME to another folder"
        )
    return wanted or noted or 1


def note_partitions(home: Home, partitions: int) -> None:
    """Keep the number, before there is any data of a frontier."""
    if partitions > 1:
        new = home.data / "partitions.new"
        new.write_text(f"{partitions}\n", encoding="ascii")
        new.rename(home.data / "partitions")


@dataclass(frozen=True, slots=True)
class Stage:
    """How far a move of the frontier in a home is; see `cli/repartition`."""

    old: int
    new: int
    """The number of partitions before and after it."""
    is_copied: bool
    """True if only the data folders have to be swapped."""


def stage_of_move(home: Home) -> Stage | None:
    """The move that has begun and has not ended; None: there is none."""
    try:
        old, new, is_copied = (home.data / _MOVE).read_text(encoding="ascii").split()
    except FileNotFoundError:
        return None
    return Stage(int(old), int(new), is_copied=is_copied == _COPIED)


def note_move(home: Home, stage: Stage | None) -> None:
    """Keep how far a move is; None: it has ended."""
    if stage is None:
        (home.data / _MOVE).unlink(missing_ok=True)
        return
    new = home.data / f"{_MOVE}.new"
    how_far = _COPIED if stage.is_copied else "copying"
    new.write_text(f"{stage.old} {stage.new} {how_far}\n", encoding="ascii")
    new.rename(home.data / _MOVE)


def note_number(home: Home, partitions: int) -> None:
    """The frontier has another number of partitions now."""
    if partitions == 1:
        (home.data / "partitions").unlink(missing_ok=True)
    note_partitions(home, partitions)


def _noted(home: Home) -> int | None:
    """The number that was chosen, None in a home without a frontier."""
    note = home.data / "partitions"
    try:
        text = note.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return 1 if (home.data / "redis").exists() else None
    if not text.isdigit() or not 2 <= int(text) <= MOST_LOCAL:
        raise SetupError(
            f"{note} does not contain a number of partitions from 2 to {MOST_LOCAL}: write the"
            f" number of the folders {home.data}/redis-* into it"
        )
    return int(text)

"""How many partitions the frontier of a home has: chosen by its first `up`, and kept with its data.

With several, each has a Redis of its own: ``redis-0``, ``redis-1`` …, with data in a folder of that
name. With one it is ``redis``, and nothing is noted.
"""

from __future__ import annotations

from crawlstream.errors import SetupError
from crawlstream.local.home import Home

MOST_LOCAL = 16
"""Redis servers of one local cluster."""


def redis_names(partitions: int) -> list[str]:
    """The Redis servers of a home, by the number of its partitions."""
    return ["redis"] if partitions == 1 else [f"redis-{number}" for number in range(partitions)]


def partitions_in(home: Home) -> int:
    """Of the frontier in a home; one where nothing has been chosen."""
    return _noted(home) or 1


def choose_partitions(home: Home, wanted: int | None) -> int:
    """The number that may be noted; SetupError when a frontier with another number is there.

    ``wanted`` is None for what there is.
    """
    noted = _noted(home)
    if None not in (wanted, noted) and wanted != noted:
        raise SetupError(
            f"the frontier in {home.path} has {noted} partition{'s' if noted != 1 else ''}, which"
            f" cannot be changed to {wanted}: start it without --partitions, set CRAWLSTREAM_HOME"
            " to another directory, or delete this one with all its data"
        )
    return wanted or noted or 1


def note_partitions(home: Home, partitions: int) -> None:
    """Keep the number, before there is any data of a frontier."""
    if partitions > 1:
        new = home.data / "partitions.new"
        new.write_text(f"{partitions}\n", encoding="ascii")
        new.rename(home.data / "partitions")


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

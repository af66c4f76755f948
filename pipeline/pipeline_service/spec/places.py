"""Relative paths in the file of the pipelines: they begin in the folder of that file.

So a pipeline stores in the same place, whichever command runs it, and from whichever folder.
"""

from __future__ import annotations

from pathlib import Path

from crawlstream.errors import ConfigError

SQLITE = "sqlite:///"


def in_folder(path: str, folder: Path) -> str:
    """Return a path with its folder; a whole path, or a URL, as it is."""
    if path.startswith(SQLITE):
        return SQLITE + in_folder(path.removeprefix(SQLITE), folder)
    if "://" in path or path.startswith(("/", "~")):
        return path
    return str(folder / path)


def check_moved(place: str, folder: Path) -> None:
    """Raise ConfigError if an earlier version has stored in the current directory instead.

    A relative path began there, so the pipeline would not find what it has stored.
    """
    new = Path(place.removeprefix(SQLITE))
    if not new.is_relative_to(folder) or new.exists():
        return
    old = Path.cwd() / new.relative_to(folder)
    if old.exists():
        raise ConfigError(
            f"{old} is from an earlier version; relative paths now begin in the folder of the file"
            f" of the pipelines: move it to {new}, or write the whole path"
        )

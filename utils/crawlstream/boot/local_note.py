"""The note by which every process and command finds the cluster that ``up`` has started.

``up`` writes it into the home; what the environment or ``.env`` says wins.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

from crawlstream.boot.settings import Settings, load_settings

_OF_PARTITIONS = ("REDIS_HOSTS", "REDIS_CLUSTER", "CRAWLSTREAM_PARTITIONS")
_OF_REDIS = ("REDIS_HOST", "REDIS_PORT", "REDIS_HOSTS", "REDIS_CLUSTER")
_FOR_PROCESSES = (
    *("KAFKA_HOSTS", "KAFKA_TOPIC_PREFIX", "ZOOKEEPER_HOSTS", "REDIS_HOST", "REDIS_PORT"),
    *("REDIS_DB", "REDIS_PASSWORD", "CRAWLSTREAM_NAMESPACE", "CRAWLSTREAM_HOME", *_OF_PARTITIONS),
)
"""Settings that lead to the servers. The ports in a note belong to processes that already run."""


def load_process_settings(**overrides: Any) -> Settings:
    """Load the settings; where the user names no server, use the cluster in the home directory."""
    named = _named()
    told = note_for(named)
    missing = {name: told[name] for name in _FOR_PROCESSES if name in told and name not in named}
    return load_settings(**{**missing, **overrides})


def home_path(named: Mapping[str, str] | None = None) -> Path:
    """CRAWLSTREAM_HOME; by default ``.crawlstream`` in the checkout or, without one, here."""
    given = (os.environ if named is None else named).get("CRAWLSTREAM_HOME")
    is_checkout = (repository() / "pyproject.toml").exists()
    default = (repository() if is_checkout else Path()) / ".crawlstream"
    return (Path(given) if given else default).resolve()


def repository() -> Path:
    """The checkout that this code runs from; any folder where only the package is installed."""
    return Path(__file__).resolve().parents[3]


def note_for(named: Mapping[str, str], absent: Mapping[str, str] | None = None) -> dict[str, str]:
    """The note for who has named these variables; ``absent`` is what it is without a cluster.

    The password of one Redis is never shown to another, which has its own partitions as well.
    """
    try:
        told: dict[str, str] = json.loads(note_in(home_path(named)).read_text())
    except (OSError, ValueError):
        told = dict(absent or {})
    if any(named.get(name, told.get(name)) != told.get(name) for name in _OF_REDIS):
        for name in ("REDIS_PASSWORD", *_OF_PARTITIONS):
            told.pop(name, None)
    return told


def note_in(home: Path) -> Path:
    """Return where the note of a home is, if a cluster runs there."""
    return home / "run" / "cluster.json"


def write_note(home: Path, told: Mapping[str, str]) -> None:
    """Write it, readable for its owner alone."""
    note = note_in(home)
    note.touch(mode=0o600)
    note.chmod(0o600)
    note.write_text(json.dumps(told))


def _named() -> Mapping[str, str]:
    """The variables of this process, those of ``.env`` included."""
    return {**{name: text or "" for name, text in dotenv_values(".env").items()}, **os.environ}

"""The variables that the processes read, and what else a deployment is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import AliasChoices

from crawlstream.boot.settings import Settings

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"


def variables() -> frozenset[str]:
    """Every name by which a setting can be set."""
    names = {"CRAWLSTREAM_SPIDER_MODULES"}
    for name, field in Settings.model_fields.items():
        alias = field.validation_alias
        names |= set(map(str, alias.choices)) if isinstance(alias, AliasChoices) else {name}
    return frozenset(names)


def load_yaml(path: Path) -> Any:
    """The one document of a file."""
    return yaml.safe_load(path.read_text())

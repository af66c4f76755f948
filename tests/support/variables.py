"""The variables that the processes read, and what else a deployment is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from crawlstream.boot.variables import setting_names

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"


def variables() -> frozenset[str]:
    """Every name by which a setting can be set."""
    return setting_names() | {"CRAWLSTREAM_SPIDER_MODULES"}


def load_yaml(path: Path) -> Any:
    """The one document of a file."""
    return yaml.safe_load(path.read_text())

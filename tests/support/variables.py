"""The variables that the processes read, and what else a deployment is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from crawlstream.boot.settings import PREVIEW, PreviewSettings
from crawlstream.boot.variables import setting_names

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"


def variables() -> frozenset[str]:
    """Every name by which a setting can be set."""
    fields = PreviewSettings.model_fields
    divided = {name for field in fields for name in PreviewSettings.variables_of(field)}
    return setting_names() | divided | {PREVIEW, "CRAWLSTREAM_SPIDER_MODULES"}


def load_yaml(path: Path) -> Any:
    """The one document of a file."""
    return yaml.safe_load(path.read_text())

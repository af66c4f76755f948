# ruff: noqa: INP001  a hook of mkdocs, not a package
"""Links from the documentation to files beside it: right in a checkout, plain names on the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.plugins import get_plugin_logger

ROOT = Path(__file__).parent.parent

log = get_plugin_logger(__name__)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Show a link that leaves docs/ as its text; warn where there is no such file."""
    folder = Path(page.file.abs_src_path).parent

    def shown(link: re.Match[str]) -> str:
        text, target = link.groups()
        path = (folder / target.partition("#")[0]).resolve()
        if path.is_relative_to(ROOT / "docs"):
            return link.group()
        if not path.exists():
            log.warning("%s: there is no %s", page.file.src_uri, target)
        return text

    return re.sub(r"\[([^]]+)\]\((\.\./[^)\s]+)\)", shown, markdown)

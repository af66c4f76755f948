# ruff: noqa: INP001  hooks of mkdocs, not a package
"""What mkdocs does not do by itself: a menu of all decisions, and links that leave the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.plugins import get_plugin_logger

ROOT = Path(__file__).parent.parent

log = get_plugin_logger(__name__)


def on_config(config: Any) -> Any:
    """Let ``adr/*`` in the menu stand for every decision, so that nobody forgets to add one."""
    docs = ROOT / "docs"
    decisions = sorted(path.relative_to(docs).as_posix() for path in docs.glob("adr/*.md"))
    config.nav = _filled(config.nav, decisions)
    return config


def _filled(menu: Any, decisions: list[str]) -> Any:
    if isinstance(menu, list):
        return [_filled(entry, decisions) for entry in menu]
    if isinstance(menu, dict):
        return {title: _filled(entry, decisions) for title, entry in menu.items()}
    return decisions if menu == "adr/*" else menu


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

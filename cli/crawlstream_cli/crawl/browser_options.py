"""Options of a crawl or a page for a browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from crawlstream.wire import jsontext


@dataclass(frozen=True, slots=True)
class PageActions:
    """Actions in pages, as a person has written them."""

    listed: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, text: str) -> PageActions:
        """Return the actions in a JSON list, or in a file with one; BadParameter for other text."""
        is_json = text.lstrip().startswith(("[", "{"))
        try:
            listed = jsontext.loads(text.encode() if is_json else Path(text).read_bytes())
        except OSError as error:
            raise typer.BadParameter(
                f"{text!r}: {error.strerror}: expected a JSON list of actions, or a file with one"
            ) from error
        except ValueError as error:
            raise typer.BadParameter(f"{_named(text, is_json)}: not JSON: {error}") from error
        if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
            raise typer.BadParameter(
                f"{_named(text, is_json)}: expected a list of actions, such as"
                """ [{"click": "button.more", "times": 3}]"""
            )
        return cls(tuple(listed))


def _named(text: str, is_json: bool) -> str:
    return "the list of actions" if is_json else repr(text)


Actions = Annotated[
    PageActions | None,
    typer.Option(
        parser=PageActions.of,
        metavar="FILE|JSON",
        help=(
            "Have a browser scroll, click and more when a page is ready: a JSON list of actions, or"
            " a file with one."
        ),
    ),
]


def wish_of(*, render: bool, screenshot: str | None, actions: PageActions | None) -> Any:
    """Return the ``render`` of a crawl request; False: no browser is needed."""
    wish: dict[str, Any] = {"screenshot": screenshot} if screenshot else {}
    if actions:
        wish["actions"] = [*actions.listed]
    return wish or render

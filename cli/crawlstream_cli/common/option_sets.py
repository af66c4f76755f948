"""Options that belong together, as the fields of a dataclass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_type_hints

Command = Callable[..., None]


def has_options_of(options: type[Any]) -> Callable[[Command], Command]:
    """Give a command an option for each field of a dataclass, in place of its ``**given``.

    They come behind its first parameter.
    """

    def give(command: Command) -> Command:
        *others, _ = inspect.signature(command, eval_str=True).parameters.values()
        hints = get_type_hints(options, include_extras=True)
        keyword = inspect.Parameter.KEYWORD_ONLY
        made = [
            inspect.Parameter(one.name, keyword, default=one.default, annotation=hints[one.name])
            for one in fields(options)
        ]
        first = [each for each in others if each.kind is not keyword]
        shown = inspect.Signature([*first, *made, *others[len(first) :]])
        command.__signature__ = shown  # type: ignore[attr-defined]  # Typer looks here
        return command

    return give

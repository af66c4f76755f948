"""Help as people read it: paragraphs that fit any terminal, words in place of types."""

from __future__ import annotations

from typing import Any

import typer

_WORDS = {bool: "", int: "N", float: "NUMBER", str: "TEXT"}


def readable(command: Any) -> Any:
    """Return the command with help that is wrapped to the terminal's width, as its subcommands'."""
    command.help = _paragraphs(command.help or "")
    context = typer.Context(command, help_option_names=["--help", "-h"])
    for parameter in command.get_params(context):
        if parameter.param_type_name == "option":
            _name_value(parameter)
    for below in getattr(command, "commands", {}).values():
        readable(below)
    return command


def _paragraphs(text: str) -> str:
    """The paragraphs of a docstring, each on one line."""
    parts = text.replace("``", "`").split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in parts)


def _name_value(option: Any) -> None:
    """Say what follows an option: nothing after a flag, ``N`` for a number."""
    kind = option.type_descriptor
    if option.metavar is None and not kind.is_choice:
        option.metavar = _WORDS.get(kind.annotation, "PATH")

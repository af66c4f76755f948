"""Assemble the text of a Lua operation from the files in ``lua/``.

Each operation is one file, in ``lua/operations/`` by its caller. A line ``--- include: name`` in
it stands for ``lua/includes/name.lua``, and ``--- function: name`` for a function with the text
of that file, whose own functions are made when it is called. Keys are inlined: ``K.band(S, tag,
domain)`` is replaced by the expression that ``includes/keys.lua`` returns for it, so that a key
costs neither a call nor one of the few names that a function in Lua may have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

_FOLDER = files("crawlstream_frontier") / "lua"
_INCLUDE = re.compile(r"^--- (include|function): (\w+)$", re.MULTILINE)
_NO_KEYS = "local K = {}\n"
_KEY = re.compile(
    r"^(?:K\.(?P<name>\w+) = |function K\.(?P<function>\w+)\((?P<parameters>.*)\) return )"
    r"(?P<made>P \.\. .*?)(?: end)?$",
    re.MULTILINE,
)
_ARGUMENT = r"(?:[^,()]|\([^()]*\))+"
_USED_KEY = re.compile(rf"\bK\.(\w+)(?:\(({_ARGUMENT}(?:,{_ARGUMENT})*)\))?")
_WORD = re.compile(r"'[^']*'|\w+")
_CLOCK = "--- include: clock"
_BASES = ("--- include: ledger", "--- include: bands")
"""The text behind each of these parts becomes a function of its own: Lua allows 200 names in one,
and to make a closure it walks along all names of the same function that other closures use. A
function may use 60 names from outside."""


@cache
def operations() -> Mapping[str, str]:
    """Return every operation and its file, as ``read`` takes it."""
    return {
        file.name.removesuffix(".lua"): f"operations/{folder.name}/{file.name}"
        for folder in (_FOLDER / "operations").iterdir()
        for file in folder.iterdir()
    }


def read(file: str) -> str:
    """Return the text of one file below ``lua/``, such as ``includes/clock.lua``."""
    return (_FOLDER / file).read_text()


@cache
def is_timed(operation: str) -> bool:
    """Return True if an operation uses the frontier clock."""
    return _CLOCK in read(operations()[operation])


@cache
def source_of(operation: str) -> str:
    """Return the complete text of one operation, as Redis gets it."""
    return _with_keys(plain_source_of(operation))


def plain_source_of(operation: str) -> str:
    """Return the complete text of one operation as it is written: keys are made by calls."""
    text = read(operations()[operation])
    return _with_includes(_in_functions(text) if is_timed(operation) else text)


def _with_includes(text: str) -> str:
    """Return the text with all included parts, and their own parts, in place."""

    def included(match: re.Match[str]) -> str:
        part = _with_includes(read(f"includes/{match[2]}.lua"))
        return part if match[1] == "include" else f"function()\n{part}\nend"

    return _INCLUDE.sub(included, text)


def _in_functions(text: str) -> str:
    """Wrap the text behind each base in a function; the answer is returned with the time."""
    bases = [base for base in _BASES if base in text] or [_CLOCK]
    for base in reversed(bases):
        outer, _, inner = text.partition(base)
        answer = f"(function(){inner}\nend)()"
        if base == bases[0]:
            answer = f"with_time({answer})"
        text = f"{outer}{base}\nreturn {answer}\n"
    return text


def _with_keys(text: str) -> str:
    """Return the text with all keys inlined, without the functions that make them."""
    keys = {
        key["name"] or key["function"]: (key["made"], (key["parameters"] or "").split(", "))
        for key in _KEY.finditer(text)
    }

    def made(match: re.Match[str]) -> str:
        key, parameters = keys[match[1]]
        arguments = [f"({part.strip()})" for part in re.findall(_ARGUMENT, match[2] or "")]
        values = dict(zip(parameters, arguments or [""], strict=True))
        return "(" + _WORD.sub(lambda word: values.get(word[0], word[0]), key) + ")"

    return _USED_KEY.sub(made, _KEY.sub("", text).replace(_NO_KEYS, ""))

"""The Lua of the frontier, as a linter sees it: names, limits, layout."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, partial

import pytest

from crawlstream_frontier import sources
from support.frontier.lua import LUA
from support.lua_scopes import Function, Scopes, Variable

OPERATIONS = sorted(sources.operations())
FILES = sorted(path.relative_to(LUA).as_posix() for path in LUA.rglob("*.lua"))

GIVEN = frozenset(
    (
        *(
            "redis",
            "KEYS",
            "ARGV",
            "bit",
            "cjson",
            "cmsgpack",
            "struct",
            "math",
            "string",
            "table",
            "unpack",
        ),
        *("ipairs", "pairs", "next", "tonumber", "select", "setmetatable"),
    )
)
"""Names that Redis and Lua give a script."""
MOST_UPVALUES, MOST_LOCALS = 60, 200
"""Lua's own limits of a function; beyond them Redis takes no script."""
MOST_PARAMETERS = 6
MOST_LINES = 50
LINE_LENGTH = 120

Places = Mapping[int, tuple[str, int]]
"""Which line of which file a line of an operation is."""


@cache
def scopes_of(operation: str) -> tuple[Scopes, Places]:
    """The names of an operation, all its parts together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "read", partial(_marked, sources.read))
        lines = sources.plain_source_of(operation).split("\n")
    places, text = dict[int, tuple[str, int]](), list[str]()
    for number, line in enumerate(lines, 1):
        code, _, mark = line.partition(_MARK)
        text.append(code)
        if mark:
            file, at = mark.split()
            places[number] = file, int(at)
    return Scopes("\n".join(text)), places


_MARK = " --@ "


def _marked(read: object, file: str) -> str:
    """The text of a file, each line with its place."""
    assert callable(read)
    lines = read(file).split("\n")
    is_include = re.compile("--- (include|function): ").match
    return "\n".join(
        line if is_include(line) else f"{line}{_MARK}{file} {number}"
        for number, line in enumerate(lines, 1)
    )


def _place(places: Places, line: int) -> str:
    return "{}:{}".format(*places.get(line, ("?", line)))


def _functions() -> Iterator[tuple[str, Function]]:
    for operation in OPERATIONS:
        scopes, places = scopes_of(operation)
        for function in scopes.functions:
            yield f"{operation}: {_place(places, function.line)}", function


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("local a = 1 return a", []),
        ("local function f(a) return a + b end return f", ["b"]),
        ("do local a = 1 print(a) end return a", ["print", "a"]),
        ("local a = a return a", ["a"]),
        ("repeat local a = 1 until a", []),
        ("for i, j in next do i = j + k end", ["next", "k"]),
        ("local t = { a = 1, [b] = c; 'd' } return t.a, t", ["b", "c"]),
    ],
)
def test_unknown_names_are_found(text: str, told: list[str]) -> None:
    """A name is known behind its declaration, in its block and in the functions there."""
    assert [token.text for token in Scopes(text).globals] == told


@pytest.mark.parametrize("text", ["x = = 1", "f(", "if a then", "a b", "local 1", "x", "end"])
def test_what_is_not_lua_is_found(text: str) -> None:
    """A script that Redis would not take is not taken here."""
    with pytest.raises(ValueError, match="line 1"):
        Scopes(text)


def test_names_are_counted_as_lua_counts_them() -> None:
    """Counts names from outside as Lua does: each once, also those of inner functions."""
    scopes = Scopes(
        "local a, b, c = 1 return function(d, e) return function() return a + a + b + d end end"
    )
    whole, outer, inner = scopes.functions
    assert [len(one.upvalues) for one in (whole, outer, inner)] == [0, 2, 3]
    assert [one.most_locals for one in (whole, outer, inner)] == [3, 2, 0]
    assert [one.name for one in scopes.variables if not one.is_used] == ["c", "e"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_name_is_declared(operation: str) -> None:
    """A global in a script of Redis is a mistyped name: it is found here, not when it is met."""
    scopes, places = scopes_of(operation)
    unknown = [token for token in scopes.globals if token.text not in GIVEN]
    assert not [f"{_place(places, token.line)} {token.text}" for token in unknown]


def test_every_name_is_used() -> None:
    """Every name has a use in some operation. `_` is for a value that is not wanted."""
    used = dict[str, bool]()
    for operation in OPERATIONS:
        scopes, places = scopes_of(operation)
        for variable in scopes.variables:
            if variable.name != "_":
                name = f"{_place(places, variable.line)} {variable.name}"
                used[name] = used.get(name, False) or variable.is_used
    assert not [name for name, is_used in used.items() if not is_used]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_name_hides_another(operation: str) -> None:
    """A reader who has met a name knows what it is further down."""
    scopes, places = scopes_of(operation)
    hiding = [variable for variable in scopes.variables if _hides(variable)]
    assert not [f"{_place(places, one.line)} {one.name}" for one in hiding]


def _hides(variable: Variable) -> bool:
    return variable.hides is not None and variable.name != "_"


def test_lua_takes_every_function() -> None:
    """Names of its own and names from outside: Redis refuses a script that has too many."""
    assert not [
        f"{place}: {len(function.upvalues)} from outside, {function.most_locals} of its own"
        for place, function in _functions()
        if len(function.upvalues) > MOST_UPVALUES or function.most_locals > MOST_LOCALS
    ]


def test_parameters_are_few() -> None:
    """Limits parameters to six; more are passed in a table."""
    assert not [place for place, function in _functions() if function.parameters > MOST_PARAMETERS]


def test_functions_are_short() -> None:
    """A function fits on a screen; an operation itself is a list of steps."""
    long = [
        place
        for place, function in _functions()
        if function.outer and function.last_line - function.line >= MOST_LINES
    ]
    assert not [place for place in long if "?" not in place]


@pytest.mark.parametrize("file", FILES)
def test_the_layout_is_even(file: str) -> None:
    """No tab, nothing behind the last word of a line, no line beyond a screen."""
    text = (LUA / file).read_text()
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        assert len(line) <= LINE_LENGTH, f"{file}:{number} is too long"
        assert "\t" not in line, f"{file}:{number} has a tab"
        assert line == line.rstrip(), f"{file}:{number} ends in blanks"

"""Find where the Lua of the frontier could be wrong by one small thing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from random import Random
from typing import NamedTuple

from support.frontier.lua import LUA

_SWAPS = {
    r" < ": " <= ",
    r" <= ": " < ",
    r" > ": " >= ",
    r" >= ": " > ",
    r" == ": " ~= ",
    r" ~= ": " == ",
    r" \+ ": " - ",
    r" - ": " + ",
    r" and ": " or ",
    r" or ": " and ",
    r"\bnot ": "",
    r"\btrue\b": "false",
    r"\bfalse\b": "true",
    r"math\.min\(": "math.max(",
    r"math\.max\(": "math.min(",
    r" 0\b(?!\.)": " 1",
    r" 1\b(?!\.)": " 2",
}
_CONDITION = re.compile(r"^(\s*(?:if|elseif) )(?!not is_repeated\b)(.+)( then)$")
_EFFECT = re.compile(r"^(\s*)redis\.call\('(?!H?M?GET'|EXISTS'|[HZSL]?(?:LEN|CARD)')[A-Z]+'.*\)$")


class Mutant(NamedTuple):
    """A line of a Lua file (counted from 1), its right text, and the wrong one."""

    file: str
    line: int
    right: str
    wrong: str

    @property
    def name(self) -> str:
        """As told to people: where, and what stands there now."""
        return f"{self.file}:{self.line}: {self.wrong.strip()}"

    @property
    def key(self) -> str:
        """Names the change whatever line it stands in, as ``survivors.toml`` has it."""
        return f"{self.file}: {self.right.strip()} => {self.wrong.strip()}"


def all_mutants() -> Iterator[Mutant]:
    """Return all known changes, file by file."""
    for path in sorted(LUA.rglob("*.lua")):
        file = path.relative_to(LUA).as_posix()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            yield from (Mutant(file, number, line, wrong) for wrong in _wrongs(line))


def _wrongs(line: str) -> Iterator[str]:
    code = line.split("--", 1)[0].rstrip()
    if not code or code != line or code.startswith("local function"):
        return
    for pattern, wrong in _SWAPS.items():
        for match in re.finditer(pattern, code):
            if not _is_in_text(code, match.start()):
                yield code[: match.start()] + wrong + code[match.end() :]
    if condition := _CONDITION.match(code):
        yield f"{condition[1]}true{condition[3]}"
        yield f"{condition[1]}false{condition[3]}"
    if _EFFECT.match(code) and code.count("(") == code.count(")"):
        yield re.sub(r"\S.*$", "do end", code)


def _is_in_text(code: str, place: int) -> bool:
    return code.count("'", 0, place) % 2 == 1


def choose(mutants: Iterable[Mutant], most: int, seed: int) -> list[Mutant]:
    """Return at most ``most``, spread over the files by their size, at least two per file."""
    random = Random(seed)
    by_file: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        by_file.setdefault(mutant.file, []).append(mutant)
    total = sum(map(len, by_file.values()))
    chosen = []
    for group in by_file.values():
        share = max(2, round(most * len(group) / total))
        chosen += random.sample(group, min(share, len(group)))
    return chosen

"""Figures in prose are those of the code: a bound that is changed is changed in the pages, too."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from budgets import test_pages as page_budget
from budgets import test_requests as record_budget
from crawling.links.patterns import PAGE_BUDGET_S
from crawling.page import body_budget
from crawling.response.codings import MOST_CODINGS
from crawlstream.boot.addresses import WEB_PORTS
from crawlstream.model.request import RequestLimits
from crawlstream.model.result import ResultLimits

_DOCS = Path(__file__).parents[3] / "docs"
_MIB = 1 << 20
_WORDS = ("none", "one", "two", "three", "four", "five")


def _lua(file: str, name: str) -> int:
    """A number that a line ``local A, B = 1, 2`` of an include gives to a name."""
    source = (files("crawlstream_frontier") / "lua/includes" / file).read_text()
    for names, values in re.findall(r"^local ([A-Z_, ]+) = ([\d, ]+)$", source, re.MULTILINE):
        given = dict(zip(names.split(", "), values.split(", "), strict=True))
        if name in given:
            return int(given[name])
    raise LookupError(name)


_REQUEST = f"{RequestLimits().max_bytes // _MIB} MiB"
_BODY = f"{ResultLimits().max_body_bytes // _MIB} MiB"
_REGEX = f"{1000 * PAGE_BUDGET_S:.0f} ms of CPU"
_PORTS = [str(port) for port in sorted(WEB_PORTS)]
_DEATHS = _WORDS[_lua("bury.lua", "MAX_DEATHS")]
_CPU = {1.0: "a second of CPU"}
_RECORD = f"{_CPU[record_budget.MOST_CPU_S]} and {record_budget.MOST_BYTES // _MIB} MiB"

FIGURES = {
    "security.md": (
        f"({_REQUEST}, depth, values, expressions; {_RECORD})",
        f"the few that cannot have {_REGEX} a page",
        f"more than {_WORDS[MOST_CODINGS]} content codings",
        f"costs {_CPU[page_budget.CPU_S]} and {page_budget.MEMORY_MIB} MiB at most",
        f"one of the largest together ({body_budget._SHARED // _MIB} MiB at least)",
        f"the {_WORDS[body_budget._OLDEST]} oldest go on",
        f"found out after {_DEATHS} deaths",
        f"ports other than {', '.join(_PORTS[:-1])} and {_PORTS[-1]}",
    ),
    "wire.md": (f"A record of up to {_REQUEST}", f"a body is cut at {_BODY}"),
    "spiders.md": (f"have {_REGEX} a page", f"too large for its record ({_BODY},"),
    "migrating.md": (f"a body is cut at {_BODY}",),
}


@pytest.mark.parametrize("page", FIGURES)
def test_bounds_in_prose_are_those_of_the_code(page: str) -> None:
    """Figures of the documentation are those in force."""
    text = " ".join((_DOCS / page).read_text(encoding="utf-8").split())
    for sentence in FIGURES[page]:
        assert sentence in text, f"docs/{page} should say: {sentence}"


def test_records_are_judged_by_the_budget_at_their_full_size() -> None:
    """The record that the budget is proved with is as large as one may be."""
    assert 0 < RequestLimits().max_bytes - record_budget.SIZE < 1024

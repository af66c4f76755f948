"""Rights of a page: statements of headers, heads and robots.txt about its uses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.http import HtmlResponse, Response

from crawling.page.head import head_of
from crawling.page.rights import SiteSays, rights_of
from crawling.page.statements import Statement, terms, usage
from crawlstream.model.web.purposes import Purpose, reserves
from support.hostile.markup import cpu_s

URL = "http://a.example/folder/page"
ALSO = {"ai-train": "train-ai", "ai-use": "ai-input"}


def _rights(
    headers: dict[str, Any] | None = None,
    markup: str | bytes = "",
    purpose: str | None = None,
    robots: SiteSays | None = None,
) -> dict[str, Any] | None:
    body = markup if isinstance(markup, bytes) else markup.encode()
    response = HtmlResponse(URL, headers=headers, body=body)
    return rights_of(response, head_of(response), robots, purpose)


def _said(**more: Any) -> dict[str, Any]:
    """Return what a header and a head say, in short."""
    found = _rights(**more)
    assert found
    return found


def naive(text: str) -> dict[str, str]:
    """Read a list of ``key=y`` and ``key=n`` as anybody would; the referee."""
    found: dict[str, str] = {}
    for member in text.split(","):
        key, _, value = member.split(";")[0].strip().partition("=")
        found.pop(key, None)
        if value in {"y", "n"}:
            found[key] = value
    together: dict[str, str] = {}
    for key, value in found.items():
        name = ALSO.get(key, key)
        together[name] = "n" if "n" in {value, together.get(name)} else "y"
    return together


HEADERS: dict[str, tuple[list[str], dict[str, str] | None]] = {
    "a use that is refused": (["train-ai=n"], {"train-ai": "n"}),
    "several": (["train-ai=n, search=y"], {"search": "y", "train-ai": "n"}),
    "in two lines": (["train-ai=n", "search=y"], {"search": "y", "train-ai": "n"}),
    "parameters are passed over": (['train-ai=n;why="x, y=n";z, search=y'], {
        "search": "y", "train-ai": "n",
    }),
    "the last of a key": (["train-ai=n, train-ai=y"], {"train-ai": "y"}),
    "the last of a key in two lines": (["train-ai=y", "train-ai=n"], {"train-ai": "n"}),
    "input of a model": (["ai-use=n"], {"ai-input": "n"}),
    "two words for a use": (["ai-train=n, train-ai=y"], {"train-ai": "n"}),
    "a use of tomorrow": (["holograms=n"], {"holograms": "n"}),
    "unknown answers": (['train-ai=maybe, search, x=1, y="n", z=(n)'], {}),
    "an answer in capitals": (["train-ai=N"], {}),
    "a key in capitals": (["TRAIN-AI=n"], None),
    "a comma at the end": (["train-ai=n,"], None),
    "one line that cannot be read": (["train-ai=n", "?!"], None),
    "nothing": ([""], None),
    "a long name": ([f"{'a' * 33}=n"], {}),
    "a long field": ([f"train-ai=n, x={'a' * 1100}"], None),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "uses"), HEADERS.values(), ids=HEADERS)
def test_a_header_names_uses(lines: list[str], uses: dict[str, str] | None) -> None:
    """A field that is not a dictionary is absent; answers but ``y`` and ``n`` say nothing."""
    rights = _rights({"Content-Usage": lines})
    assert (rights and rights["uses"]) == uses
    if rights:
        value = ", ".join(lines)[:256]
        assert rights["sources"] == [{"from": "header", "name": "content-usage", "value": value}]


KEYS = st.sampled_from(["train-ai", "search", "ai-use", "ai-input", "ai-train", "b", "c.d_*"])
MEMBERS = st.lists(
    st.tuples(
        KEYS, st.sampled_from(["y", "n", "yes", "no", "1", "?1"]), st.sampled_from(["", ";p"])
    ),
    min_size=1,
    max_size=8,
)


@given(MEMBERS, st.sampled_from([",", ", ", " , "]))
def test_a_naive_reader_finds_the_same(members: list[tuple[str, str, str]], comma: str) -> None:
    """Reads all simple dictionaries like a naive reader that only splits."""
    text = comma.join(f"{key}={value}{more}" for key, value, more in members)
    (statement,) = usage("header", text.encode())
    assert dict(statement.uses) == naive(text)


HEADS: dict[str, tuple[str, dict[str, Any]]] = {
    "a reservation": ('<meta name="tdm-reservation" content="1">', {"tdm": 1}),
    "none": ("<meta name=TDM-Reservation content=' 0 '>", {"tdm": 0}),
    "a policy": (
        "<meta name=tdm-reservation content=1><meta name=tdm-policy content=/policy.json>",
        {"tdm": 1, "tdm_policy": "http://a.example/policy.json"},
    ),
    "the stricter of two": (
        "<meta name=tdm-reservation content=0><meta name=tdm-reservation content=1>", {"tdm": 1},
    ),
    "a license": (
        '<link rel="license" type="application/rsl+xml" href="https://l.example/l.xml">',
        {"licenses": ["https://l.example/l.xml"]},
    ),
    "a license among relations": (
        "<link rel='help LICENSE' href=l><link rel=license href=l><link rel=help href=h>",
        {"licenses": ["http://a.example/folder/l"]},
    ),
    "a license by the base": (
        "<base href=//b.example/x/><link rel=license href=l>",
        {"licenses": ["http://b.example/x/l"]},
    ),
    "what no request can fetch": (
        "<link rel=license href=mailto:a><link rel=license><meta name=tdm-reservation content=1>",
        {"licenses": ["http://a.example/folder/page"], "tdm": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("head", "expected"), HEADS.values(), ids=HEADS)
def test_a_head_reserves_and_names_licenses(head: str, expected: dict[str, Any]) -> None:
    """Their addresses are resolved."""
    found = _said(markup=f"<title>x</title>{head}<body>y")
    said: dict[str, Any] = {
        "tdm": None,
        "tdm_policy": None,
        "licenses": [],
        "uses": {},
        "purpose": None,
    }
    assert {name: found[name] for name in said} == {**said, **expected}


@pytest.mark.parametrize(
    "markup",
    [
        "<!-- <meta name=tdm-reservation content=1> -->",
        "<script>'<meta name=tdm-reservation content=1>'</script>",
        "<template><meta name=tdm-reservation content=1></template>",
        "<title>x</title></head><body><meta name=tdm-reservation content=1>",
        "<meta name=tdm-reservation content=2><meta name=tdm-policy content=''>",
        "<meta name=tdm-reservation content=yes>",
        "<p>Our license</p><link rel=stylesheet href=license.css>",
    ],
)
def test_what_is_no_statement_says_nothing(markup: str) -> None:
    """Ignores comments, the body, and values that the formats do not have."""
    assert _rights(markup=markup) is None
    response = Response(URL, body=b"<meta name=tdm-reservation content=1>")
    assert rights_of(response, head_of(response), None, "search") is None


def test_a_page_speaks_for_itself_before_its_server() -> None:
    """TDMRep: its meta counts, not the header; a policy is that of the same place."""
    headers = {"TDM-Reservation": "1", "tdm-policy": "https://p.example/"}
    found = _said(headers=headers)
    assert (found["tdm"], found["tdm_policy"]) == (1, "https://p.example/")
    found = _said(headers=headers, markup="<meta name=tdm-reservation content=0>")
    assert (found["tdm"], found["tdm_policy"]) == (0, None)
    assert [each["from"] for each in found["sources"]] == ["header", "header", "meta"]
    assert _said(headers={"TDM-Reservation": ["0", "1", "x"]})["tdm"] == 1


@pytest.mark.parametrize(
    ("lines", "licenses"),
    [
        (['<https://l.example/l.xml>; rel="license"; type="application/rsl+xml"'], ["l.xml"]),
        (["<https://l.example/a>; rel=LICENSE"], ["a"]),
        (['<https://l.example/c>;rel="help license", <https://l.example/b>; rel=next'], ["c"]),
        (['<https://l.example/x>; title="a,b<c>"; rel="license"', "</y>; rel=license"], ["x", "y"]),
        (["<https://l.example/d>; rel=next; rel=license"], []),
        (['<https://l.example/d>; rel=license; anchor="/other"'], []),
        (["<https://l.example/d>; title=license", "<license>", "license"], []),
        (['<https://l.example/d>; title="; rel=license"'], []),
        (["<javascript:1>; rel=license", "<mailto:a@l.example>; rel=license"], []),
        (['<https://l.example/e>; title="license; rel=license'], []),
    ],
)
def test_a_link_header_names_licenses(lines: list[str], licenses: list[str]) -> None:
    """The first relation counts; links of other pages do not."""
    found = _rights({"Link": lines})
    assert [each.rpartition("/")[2] for each in (found or {}).get("licenses", ())] == licenses
    assert (found is None) == (licenses == [])


SAYS: dict[str, tuple[dict[str, str], int | None, set[Purpose]]] = {
    "search": ({"search": "n"}, None, {Purpose.SEARCH}),
    "training": ({"train-ai": "n"}, None, {Purpose.TRAIN_AI}),
    "input": ({"ai-input": "n"}, None, {Purpose.AI_INPUT}),
    "mining": ({}, 1, {Purpose.TRAIN_AI, Purpose.AI_INPUT, Purpose.MINING, Purpose.OTHER}),
    "a use that is allowed": ({"train-ai": "y"}, 1, {
        Purpose.TRAIN_AI, Purpose.AI_INPUT, Purpose.MINING, Purpose.OTHER,
    }),
    "no mining is reserved": ({"search": "y"}, 0, set()),
    "a word that is a purpose by chance": ({"archive": "n", "mining": "n"}, None, set()),
}  # fmt: skip


@pytest.mark.parametrize(("uses", "tdm", "purposes"), SAYS.values(), ids=SAYS)
def test_a_page_is_reserved_for_some_purposes(
    uses: dict[str, str], tdm: int | None, purposes: set[Purpose]
) -> None:
    """Reserves a page only by statements about the purpose of the crawl."""
    assert {purpose for purpose in Purpose if reserves(purpose, uses, tdm)} == purposes


def test_a_page_is_not_reserved_for_nothing() -> None:
    """Leaves the verdict out without a purpose."""
    assert "reserved" not in _said(headers={"Content-Usage": "train-ai=n"})
    for purpose, answer in (("train-ai", True), ("search", False)):
        found = _said(headers={"Content-Usage": "train-ai=n"}, purpose=purpose)
        assert (found["purpose"], found["reserved"]) == (purpose, answer)


def test_the_strictest_statement_about_a_use_holds() -> None:
    """Compares headers, head and robots.txt, and lists each."""
    robots = SiteSays([Statement("robots", "content-signal", "ai-train=no", {"train-ai": "n"})], 7)
    found = _said(headers={"Content-Usage": "train-ai=y"}, robots=robots, purpose="train-ai")
    assert (found["uses"], found["reserved"], found["robots_age_s"]) == ({"train-ai": "n"}, True, 7)
    assert found["sources"] == [
        {"from": "header", "name": "content-usage", "value": "train-ai=y"},
        {"from": "robots", "name": "content-signal", "value": "ai-train=no"},
    ]
    assert "robots_age_s" not in _said(headers={"Content-Usage": "train-ai=y"})


@pytest.mark.parametrize("purpose", Purpose)
def test_a_license_that_prohibits_all_reserves_a_page_for_any_purpose(purpose: Purpose) -> None:
    """No other format has that word."""
    for statement, is_reserved in (
        (terms([], ["all"], is_free=True), True),
        (terms(["all"], [], is_free=True), False),
        (Statement("header", "content-usage", "all=n", {"all": "n"}), False),
    ):
        assert _said(robots=SiteSays([statement], None), purpose=purpose)["reserved"] is is_reserved


@pytest.mark.parametrize(
    ("headers", "markup", "tdm", "policy"),
    [
        ({}, "", 1, "https://a.example/file"),
        ({"Tdm-Reservation": "0"}, "", 0, None),
        ({"Tdm-Policy": "/header"}, "", 1, "https://a.example/file"),
        ({}, "<meta name=tdm-reservation content=0>", 0, None),
    ],
)
def test_a_page_and_its_headers_count_before_the_file_of_its_site(
    headers: dict[str, str], markup: str, tdm: int, policy: str | None
) -> None:
    """All are listed; without robots.txt there is no age of it."""
    statements = [
        Statement("file", "tdm-reservation", "1"),
        Statement("file", "tdm-policy", "https://a.example/file"),
    ]
    found = _said(headers=headers, markup=markup, robots=SiteSays(statements, None))
    assert (found["tdm"], found["tdm_policy"]) == (tdm, policy)
    assert {"from": "file", "name": "tdm-reservation", "value": "1"} in found["sources"]
    assert "robots_age_s" not in found


_HOSTILE_NAMES = st.sampled_from(["Content-Usage", "TDM-Reservation", "Tdm-Policy", "Link"])
_HOSTILE_TEXT = st.text("trainesch-=,;<>\"'\\:/1 0\xff", max_size=300)


@given(st.lists(st.tuples(_HOSTILE_NAMES, _HOSTILE_TEXT), max_size=20), st.sampled_from(Purpose))
def test_whatever_is_said_is_bounded(lines: list[tuple[str, str]], purpose: Purpose) -> None:
    """Limits statements to the size that a result can carry."""
    headers: dict[str, Any] = {}
    for name, text in lines:
        headers.setdefault(name, []).append(text.encode("latin-1"))
    found = _rights(headers, purpose=purpose)
    if found:
        assert len(found["sources"]) <= 16
        assert all(len(each["value"]) <= 256 for each in found["sources"])
        assert len(found["uses"]) <= 16
        assert len(found["licenses"]) <= 8


def test_the_known_uses_are_kept_of_many() -> None:
    """Keeps known uses though a site repeats names or adds many: a refusal is never hidden."""
    names = ", ".join(f"a{number}=y" for number in range(40))
    found = _said(headers={"Content-Usage": f"{names}, train-ai=n"}, purpose="train-ai")
    assert found["reserved"]
    assert (len(found["uses"]), next(iter(found["uses"]))) == (16, "train-ai")
    links = ", ".join(f"</{number}>; rel=license" for number in range(40))
    markup = "<meta name=tdm-reservation content=1>"
    found = _said(headers={"Link": links}, markup=markup, purpose="other")
    assert (len(found["licenses"]), len(found["sources"]), found["reserved"]) == (8, 16, True)
    assert {"from": "meta", "name": "tdm-reservation", "value": "1"} in found["sources"]


HOSTILE: dict[str, dict[str, Any]] = {
    "parameters without end": {"headers": {"Content-Usage": b"a" + b";b" * 100_000}},
    "members without end": {"headers": {"Content-Usage": b"a=n," * 50_000}},
    "nested lists": {"headers": {"Content-Usage": b"a=" + b"(" * 1000}},
    "links": {"headers": {"Link": b"<license>;rel=license," * 10_000}},
    "links without end": {"headers": {"Link": b"license" + b"<" * 100_000}},
    "quotes without end": {"headers": {"Link": b"license" + b'<>"' * 33_333}},
    "escapes without end": {"headers": {"Link": b'license<>"' + b"\\" * 100_000}},
    "parameters of a link": {"headers": {"Link": b"<license>" + b";rel" * 30_000}},
    "spaces of a link": {"headers": {"Link": b"<license>;" + b" " * 100_000}},
    "values without end": {"headers": {"Tdm-Reservation": [b"1"] * 5000}},
    "metas": {"markup": b"<meta name=tdm-reservation content=1>" * 1700},
    "deep metas": {"markup": b"<p>" * 15_000 + b"<meta name=tdm-reservation content=1>" * 500},
    "links of a head": {"markup": b"<link rel=license href=/a>" * 2500},
    "deep links": {"markup": b"<p>" * 15_000 + b"<link rel=license href=/a>" * 700},
    "one tag": {"markup": b"license tdm-<meta " + b" " * 65_000},
    "tags": {"markup": b"license tdm-" + b"<meta " * 10_000},
    "relations": {"markup": b"<link rel='" + b"license " * 8000 + b"' href=/a>"},
}


@pytest.mark.parametrize("given_", HOSTILE.values(), ids=HOSTILE)
def test_no_page_makes_its_statements_expensive(given_: dict[str, Any]) -> None:
    """Some milliseconds at most, where an ordinary page takes some hundredths of one."""
    assert cpu_s(lambda: _rights(**given_)) < 0.02

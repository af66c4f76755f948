"""Stages: what becomes of a page, whatever the page and whatever code of users does with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlstream.errors import ConfigError
from crawlstream.model.result import AsSent
from crawlstream.wire.delivered import decode
from pipeline_service.records.rows import Shape, StoreRow
from pipeline_service.spec.config import Pipeline
from pipeline_service.stages.chain import Chain
from pipeline_service.stages.fields import cleaned
from support.hostile.markup import cpu_s, shapes
from support.pipelines.results import record
from support.pipelines.stages import SHOP, pipeline, rows, run, stage, use

SCHEMA = {
    "type": "object",
    "required": ["name", "price"],
    "properties": {
        "name": {"type": "string"},
        "price": {"type": ["number", "null"], "minimum": 10},
        "tags": {"type": "array", "items": {"type": "string"}},
        "maker": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def test_metadata_is_added_to_the_page() -> None:
    """Rows have the whole record, and the metadata of the page."""
    (row,) = rows(pipeline(use("page")))
    plain = orjson.loads(record(1, body=SHOP))
    assert {name: row[name] for name in plain} == plain
    assert {name: row[name] for name in row if name not in plain} == {
        "title": "A shop",
        "description": "all of it",
        "canonical": "http://127.0.0.7:8080/canon",
        "lang": "de",
        "robots": "noindex",
        "opengraph": {"title": "Og"},
        "jsonld": [{"@type": "Product", "n": 1}, 2],
    }


@pytest.mark.parametrize(
    ("script", "value"),
    [
        ('<script type="application/ld+json; charset=utf-8">{"a": 1}', {"a": 1}),
        ('<script type=" Application/LD+JSON ">{"a": 1}', {"a": 1}),
        ('<script type="application/ld+json">\n<!--\n{"a": 1}\n-->\n', {"a": 1}),
        ('<script type="application/ld+json"><![CDATA[{"a": [1]}]]>', {"a": [1]}),
        ('<script type="application/ld+json">//<![CDATA[\n{"a": 1}\n//]]>', {"a": 1}),
        ('<script type="application/ld+json">/*<![CDATA[*/{"a": 1}/*]]>*/', {"a": 1}),
        ('<script type="application/ld+json">{"a": "x\ny\t\\"z"}', {"a": 'x\ny\t"z'}),
        ('<script type="application/ld+json">{"a": 1};', {"a": 1}),
        ('<script type="application/ld+json">[{"a": "[;]"}];\n', {"a": "[;]"}),
        ('<script type="application/ld+json">{"a": "<!-- -->"}', {"a": "<!-- -->"}),
        ('<script type="application/json">{"a": 1}', None),
        ('<script type="application/ld+json">a = 1;', None),
        ('<script type="application/ld+json">{"a": \'1\'}', None),
        ('<script type="application/ld+json">}{', None),
        ('<script type="application/ld+json">{"' + '\\"' * 100_000, None),
    ],
)
def test_json_ld_is_read_as_people_write_it(script: str, value: object) -> None:
    """Reads JSON-LD with a parameter in its type, wrapped, or with line ends in a text."""
    (row,) = rows(pipeline(use("page")), f"<html><head>{script}</script>".encode())
    assert row["jsonld"] == (None if value is None else [value])


@pytest.mark.parametrize(
    ("head", "canonical"),
    [
        ('<base href="/shop/"><link rel=canonical href="a">', "http://127.0.0.7:8080/shop/a"),
        ('<link rel=canonical href="a"><base href="http://b/x/">', "http://b/x/a"),
        (
            "<base target=_top><base href=/x/><link rel=canonical href=a>",
            "http://127.0.0.7:8080/x/a",
        ),
        ('<base href="data:x"><link rel=canonical href="/a">', "http://127.0.0.7:8080/a"),
        ('<base href="http://[x"><link rel=canonical href="/a">', "http://127.0.0.7:8080/a"),
        ('<link rel=canonical href=""><link rel=canonical href="/b">', "http://127.0.0.7:8080/b"),
        ('<link rel=canonical href=" "><link rel=canonical>', None),
        ('<link rel=canonical href="javascript:x">', None),
        ('<link rel=canonical href="http://[x">', None),
    ],
)
def test_a_canonical_url_is_resolved_by_the_base_of_its_page(
    head: str, canonical: str | None
) -> None:
    """An empty one does not stand for the page itself."""
    (row,) = rows(pipeline(use("page")), f"<html><head>{head}".encode())
    assert row["canonical"] == canonical


def test_the_title_of_a_drawing_is_not_that_of_its_page() -> None:
    """Ignores the title of a drawing, wherever it stands."""
    icon = "<svg><title>icon</title></svg>"
    for page, title in ((f"<body>{icon}", None), (f"<body>{icon}<title>Page</title>", "Page")):
        (row,) = rows(pipeline(use("page")), page.encode())
        assert row["title"] == title


def test_merged_headers_name_the_type_of_a_page() -> None:
    """Reads merged headers like browsers: the last valid type counts."""
    for headers, is_html in (
        (["text/plain, text/html; charset=utf-8"], True),
        (["text/plain", "Text/HTML"], True),
        (["text/html, */*"], True),
        (["text/html, text/plain"], False),
    ):
        raw = [each.encode() for each in headers]
        changes = {"response_headers": {b"content-type": raw}}
        (row,) = rows(pipeline(use("page")), b"<title>x</title>", **changes)
        assert row["title"] == ("x" if is_html else None), headers


def test_xhtml_that_is_sent_as_xml_is_a_page() -> None:
    """Other XML is none."""
    page = (
        b'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><title>x</title></html>'
    )
    changes = {"response_headers": {b"content-type": [b"application/xml"]}}
    for body, title in ((page, "x"), (page.replace(b"1999/xhtml", b"2000/svg"), None)):
        (row,) = rows(pipeline(use("page")), body, **changes)
        assert row["title"] == title


SHAPES = shapes()


@pytest.mark.parametrize("name", SHAPES)
def test_no_shape_of_markup_costs_the_stages_more_than_its_length(name: str) -> None:
    """Metadata and the signature of a page stay within the budget of a page."""
    described = pipeline(use("page") + use("signature"))
    body = SHAPES[name](256 << 10).encode()
    assert cpu_s(lambda: rows(described, body)) < 0.7


def test_words_are_those_that_a_reader_sees() -> None:
    """Returns the words that a reader sees, in order, without scripts, heads and comments."""
    body = b"<title>x</title><p>a<!-- x -->b<script>x</script>c<svg><b>x</b></svg> d&amp;e <?x y?>f"
    (row,) = rows(pipeline(use("signature")), body)
    (same,) = rows(pipeline(use("signature")), b"<p>a b c d e f")
    assert row["signature"] == same["signature"] is not None


@given(st.binary(max_size=300), st.sampled_from(["utf-8", "utf-16", "binary", "nonsense", None]))
def test_no_page_is_too_strange_for_the_stages(body: bytes, encoding: str | None) -> None:
    """Makes something of any bytes in each stage, and the same again."""
    described = pipeline(
        stage('use = "page"') + stage('use = "signature"\nsimhash = true') + use("clean")
    )
    assert run(described, body, encoding=encoding) is not None
    first, second = (rows(described, body, encoding=encoding) for _ in range(2))
    assert first == second
    assert len(first) == 1


@pytest.mark.parametrize("engine", ["trafilatura", "resiliparse"])
def test_either_engine_leaves_out_the_menu(engine: str) -> None:
    """Null where there is no text, or no page."""
    text = " ".join(["The lamp gives light to the whole room, and it is made of brass."] * 5)
    body = f"<html><body><nav>Home Imprint</nav><article><p>{text}</p></article></body></html>"
    described = pipeline(stage(f'use = "text"\nengine = "{engine}"'))
    (row,) = rows(described, body.encode())
    assert row["text"] == text
    for empty in (b"", b"<p>", b"<script>x</script>"):
        assert rows(described, empty)[0]["text"] is None
    assert rows(described, b"%PDF", encoding="binary")[0]["text"] is None


@given(st.binary(max_size=300), st.sampled_from(["utf-8", "utf-16", "binary", "nonsense", None]))
def test_resiliparse_reads_any_bytes(body: bytes, encoding: str | None) -> None:
    """Makes the same text each time."""
    described = pipeline(stage('use = "text"\nengine = "resiliparse"'))
    first, second = (rows(described, body, encoding=encoding) for _ in range(2))
    assert first == second


def test_resiliparse_runs_in_worker_processes_only() -> None:
    """Some pages take it minutes: a pipeline without workers, or their memory limit, is refused."""
    text = stage('use = "text"\nengine = "resiliparse"')
    for key in ("workers", "memory_mb"):
        with pytest.raises(ConfigError, match=rf"pipeline.a.{key}: the stage text runs only in"):
            pipeline(text, more=f"{key} = 0")
    assert pipeline(text).worker_count == 1
    assert pipeline(use("text"), more="workers = 0").worker_count == 0


def test_signatures_tell_what_pages_say() -> None:
    """Scripts and markup never count, digits by choice; a changed word counts a little."""
    words = [f"word{n % 700}" for n in range(1_000)]

    def signed(text: str, more: str = "") -> dict[str, Any]:
        described = pipeline(stage(f'use = "signature"\nsimhash = true\n{more}'))
        return rows(described, f"<html><body>{text}</body></html>".encode())[0]

    one, same = signed(" ".join(words)), signed("<script>x</script><b>" + "\n".join(words))
    assert one["signature"] == same["signature"]
    assert one["simhash"] == same["simhash"]
    near = signed(" ".join([*words[:-1], "other"]))
    assert near["signature"] != one["signature"]
    assert (near["simhash"] ^ one["simhash"]).bit_count() < 10
    mask = "mask_digits = true"
    assert signed("5 minutes ago", mask)["signature"] == signed("17 minutes ago", mask)["signature"]
    assert signed("")["signature"] is None


def test_a_function_makes_items() -> None:
    """Each with its page's id and place, and its number; no item, and the page is filtered."""
    (row,) = rows(pipeline(use("python:support.pipelines.shop:product")))
    plain = orjson.loads(record(1))
    place = {name: plain[name] for name in ("id", "appid", "crawlid", "spiderid", "run", "url")}
    item = {"name": "Lamp", "price": 12.5, "seen": "2026-11-01"}
    assert row == {**place, "n": 0, "timestamp": plain["timestamp"], **item}
    assert run(pipeline(use("python:support.pipelines.shop:product")), b"<p>").filtered == "product"


def test_stages_see_what_stages_before_have_made() -> None:
    """Items of items are numbered from the beginning, in their order."""
    shop = "python:support.pipelines.shop"
    made = rows(pipeline(use("page", f"{shop}:several", f"{shop}:doubled")))
    assert [(row["n"], row["name"], row["copy"]) for row in made] == [
        (0, "one", 0),
        (1, "one", 1),
        (2, "two", 0),
        (3, "two", 1),
    ]
    assert {row["title"] for row in made} == {"A shop"}


def test_pages_are_filtered_by_stages() -> None:
    """Filters pages by a stage as by the pipeline's own ``where``, or by a function."""
    wanted = pipeline(stage('use = "where"\npython = "support.pipelines.shop:is_shop"'))
    assert run(wanted).rows is None
    assert run(wanted, b"other").filtered == "where.python"
    assert not wanted.changes_rows
    assert run(pipeline(stage('use = "where"\nstatus = ["404"]'))).filtered == "where.status"


def test_fields_are_kept_dropped_and_renamed() -> None:
    """The page's own columns likewise; the id stays. The body goes in all its forms."""
    described = pipeline(
        use("page")
        + stage('use = "fields"\nkeep = ["url", "title", "lang", "body"]\ndrop = ["body"]')
        + stage('use = "fields"\nrename = {title = "headline", url = "address"}')
    )
    (row,) = rows(described)
    assert row == {
        "id": orjson.loads(record(1))["id"],
        "address": "http://127.0.0.7:8080/a?b=c",
        "headline": "A shop",
        "lang": "de",
    }
    names = [column.name for column in Shape(described.stage, None).columns]
    assert sorted(names) == ["address", "headline", "id", "lang"]
    (row,) = rows(pipeline(stage('use = "fields"\ndrop = ["body"]')), as_sent=AsSent(b"", b"z"))
    assert row.keys().isdisjoint({"as_sent", "body", "body_encoding"})


@given(st.text())
def test_clean_text_is_clean(text: str) -> None:
    """Cleans a text once: no control character is left but line breaks."""
    once = cleaned(text)
    assert cleaned(once) == once
    assert not any(ord(each) < 32 and each != "\n" for each in once)
    assert cleaned({"a": ["x\u00a0 y\u200b", "a\r\n\n\n\nb", 1]}) == {"a": ["x y", "a\n\nb", 1]}


def described_schema(folder: Path, handling: str, schema: object = SCHEMA) -> Pipeline:
    """Return a pipeline whose items have a schema."""
    (folder / "s.json").write_bytes(orjson.dumps(schema))
    return pipeline(
        use("python:support.pipelines.shop:product")
        + stage(f'use = "validate"\nschema = "s.json"\non_invalid = "{handling}"'),
        folder,
    )


def test_invalid_items_are_marked_dropped_or_undelivered(tmp_path: Path) -> None:
    """Marks, drops or leaves invalid items as the stage says; counts all by field and rule."""
    cheap = b"<h1>Lamp</h1><p class=price>1</p>"
    (row,) = rows(described_schema(tmp_path, "mark"), cheap)
    assert row["price"] == 1
    assert row["_errors"] == ["price: 1.0 is less than the minimum of 10"]
    dropped = run(described_schema(tmp_path, "drop"), cheap)
    assert dropped.filtered == "validate"
    refused = run(described_schema(tmp_path, "undelivered"), cheap)
    assert (refused.reason, refused.stage) == ("invalid", "validate")
    assert refused.errors == ["price: 1.0 is less than the minimum of 10"]
    for outcome in (dropped, refused):
        assert outcome.quality is not None
        assert outcome.quality.as_record() == {
            "items": 1,
            "fields": {
                "maker": [0, 0, {}],
                "maker.city": [0, 0, {}],
                "name": [1, 1, {}],
                "price": [1, 0, {"minimum": 1}],
                "tags": [0, 0, {}],
            },
        }
    (valid,) = rows(described_schema(tmp_path, "undelivered"))
    assert "_errors" not in valid


def test_a_model_of_pydantic_validates_as_well() -> None:
    """The values that it converts are stored."""
    described = pipeline(
        use("python:support.pipelines.shop:product")
        + stage('use = "validate"\nschema = "pydantic:support.pipelines.shop:Product"')
    )
    (row,) = rows(described)
    assert (row["name"], row["price"], row["tags"]) == ("Lamp", 12.5, None)
    outcome = run(described, b"<h1>Lamp</h1>")
    assert outcome.rows is not None
    assert outcome.rows[0].errors == ["price: Input should be a valid number"]
    kinds = {
        c.name: str(c.kind) for c in Shape(described.stage, Chain(described.plan).schema).columns
    }
    assert kinds["price"] == "64-bit floating point"
    assert kinds["tags"] == "list of texts"


def test_what_fits_no_column_is_kept_beside_them(tmp_path: Path) -> None:
    """A value of another type than the schema's, and a field that it does not have."""
    described = described_schema(tmp_path, "mark", {"properties": {"price": {"type": "string"}}})
    value = record(1, body=SHOP)
    (made,) = run(described).rows or ()
    shape = Shape(described.stage, Chain(described.plan).schema)
    row = StoreRow(decode(value), value, made.fields, made.number, made.errors)
    taken = {column.name: column.take(row) for column in shape.columns}
    assert taken["price"] is None
    assert orjson.loads(str(taken["_extra"])) == {
        "name": "Lamp",
        "price": 12.5,
        "seen": "2026-11-01",
    }
    assert taken["_errors"] == ["price: 12.5 is not of type 'string'"]


@pytest.mark.parametrize(
    ("body", "reason", "sentence"),
    [
        (b"raise", "stage_failed", "by_body: ValueError: on purpose ("),
        (b"quit", "stage_failed", "by_body: SystemExit ("),
        (b"large", "too_large", "the rows have"),
    ],
)
def test_what_fails_is_undelivered(body: bytes, reason: str, sentence: str) -> None:
    """Reports a failure with its place in the user's own code."""
    outcome = run(pipeline(use("python:support.pipelines.shop:by_body")), body)
    assert outcome.reason == reason
    assert outcome.errors[0].startswith(sentence), outcome.errors
    if reason == "stage_failed":
        assert "shop.py:" in outcome.errors[0]


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        ("'text'", "it returned str: expected a mapping"),
        ("[1]", "it returned int: expected a mapping"),
        ("{'id': 1}", "'id' belongs to each row"),
        ("{'x': {'y': object()}}", "'x.y' is of the type object, which JSON cannot say"),
        ("{'x': 1 << 70}", "'x' is an integer beyond 64 bits"),
        ("({} for _ in range(20_000))", "more than 10000 items of one page"),
    ],
)
def test_what_is_no_item_is_undelivered(
    returned: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refuses other values as items in a sentence, before a sink gets them."""
    name = f"code{abs(hash(returned))}"
    (tmp_path / f"{name}.py").write_text(f"def call(page):\n    return {returned}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    outcome = run(pipeline(use(f"python:{name}:call")))
    assert outcome.reason in ("stage_failed", "too_large")
    assert sentence in outcome.errors[0]


def test_values_become_those_of_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN is null, and half a character is one that can be encoded."""
    (tmp_path / "odd.py").write_text(
        "import decimal\ndef call(page):\n    return {'a': float('nan'), 'b': '\\ud800x',"
        " 'c': {2, 1}, 'd': decimal.Decimal('1.5'), 3: (True, None)}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    (row,) = rows(pipeline(use("python:odd:call")))
    found = {name: row[name] for name in "abcd3"}
    assert found == {"a": None, "b": "\ufffdx", "c": [1, 2], "d": 1.5, "3": [True, None]}


@pytest.mark.parametrize(
    ("stages", "sentence"),
    [
        (use("nonsense"), r"stage\[1\].use: expected one of where, page, text"),
        (use("python:x"), r"stage\[1\].use: expected one of"),
        (stage('use = "page"\nx = 1'), r"stage\[1\]: unknown key 'x'; it takes none"),
        (stage('use = "text"\nformat = "pdf"'), 'format: expected "txt" or "markdown"'),
        (
            stage('use = "text"\nengine = "lynx"'),
            "engine: expected one of trafilatura, resiliparse",
        ),
        (
            stage('use = "text"\nengine = "resiliparse"\nfast = true'),
            "fast: the engine resiliparse has no such option",
        ),
        (stage('use = "signature"\nsimhash = 1'), "simhash: expected true or false"),
        (stage('use = "fields"'), "expected keep, drop or rename"),
        (stage('use = "fields"\nkeep = "x"'), "keep: expected a list of names"),
        (stage('use = "fields"\nrename = {a = "id"}'), "'id' belongs to each row"),
        (stage('use = "fields"\nrename = {a = "c", b = "c"}'), "a different name for each"),
        (stage('use = "where"'), "expected what a page must be"),
        (stage('use = "where"\ncolour = ["red"]'), "unknown key 'colour'"),
        (stage('use = "where"\npython = "x"'), 'python: expected "MODULE:FUNCTION"'),
        (stage('use = "validate"'), "schema: expected the path of a JSON Schema"),
        (stage('use = "validate"\nschema = "none.json"'), "none.json cannot be read"),
        (stage('use = "validate"\nschema = "pydantic:x"'), 'expected "pydantic:MODULE:CLASS"'),
        (
            stage('use = "validate"\nschema = "x"\non_invalid = "keep"'),
            "on_invalid: expected one of mark, drop, undelivered",
        ),
    ],
)
def test_a_stage_that_cannot_be_meant_is_refused(stages: str, sentence: str) -> None:
    """Refuses a wrong stage when the file is read, by its number and key."""
    with pytest.raises(ConfigError, match=sentence):
        pipeline(stages)


@pytest.mark.parametrize(
    ("stages", "sentence"),
    [
        ("python:nowhere:f", "stage f: nowhere:f cannot be imported: ModuleNotFoundError"),
        ("python:support.pipelines.shop:none", "the module support.pipelines.shop has no none"),
        ("python:support.pipelines.shop:asynchronous", "expected a function that is not async"),
        ("pydantic:support.pipelines.shop:product", "a class that inherits pydantic.BaseModel"),
    ],
)
def test_a_stage_that_cannot_be_loaded_is_refused(stages: str, sentence: str) -> None:
    """Refuses a stage that cannot be loaded, before a record is read."""
    text = use(stages)
    if stages.startswith("pydantic"):
        text = stage(f'use = "validate"\nschema = "{stages}"')
    with pytest.raises(ConfigError, match=sentence):
        Chain(pipeline(text).plan)


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({"type": "nothing"}, r"invalid JSON Schema: \$.type"),
        ({"properties": {"id": {}}}, "its schema has 'id', which belongs to each row"),
    ],
)
def test_a_schema_that_cannot_be_meant_is_refused(
    schema: object, sentence: str, tmp_path: Path
) -> None:
    """Refuses a wrong schema, before a record is read."""
    with pytest.raises(ConfigError, match=sentence):
        Chain(described_schema(tmp_path, "mark", schema).plan)


def test_an_archive_takes_pages_only() -> None:
    """A WARC file of something else would not be one."""
    with pytest.raises(ConfigError, match="WARC files hold pages as they were, and the stage page"):
        pipeline(use("page"), which="warc.gz")
    assert pipeline(stage('use = "where"\nappid = ["a"]'), which="warc.gz").worker_count == 0


def test_what_needs_a_process_of_its_own_has_one() -> None:
    """Runs hostile stages in a process, unless the file says how many; a filter needs none."""
    assert pipeline(stage('use = "where"\nstatus = ["200"]')).worker_count == 0
    assert pipeline(use("page")).worker_count == 1
    assert pipeline(use("page"), more="workers = 0").worker_count == 0

"""Stages over texts: Markdown, documents, and the language of a page."""

from __future__ import annotations

import sys
from dataclasses import replace
from operator import eq

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import crawlstream_extract
from crawlstream.errors import ConfigError
from crawlstream.wire.delivered import decode
from crawlstream_extract.language import UNKNOWN, LanguageModel
from pipeline_service.formats.parquet import schema_of
from pipeline_service.records.rows import Shape
from pipeline_service.stages.chain import Chain
from pipeline_service.stages.documents import FIELDS as DOCUMENT
from pipeline_service.stages.documents import Documents
from pipeline_service.stages.draft import Draft
from pipeline_service.stages.page import page_of
from support.hostile.documents import pdf
from support.pipelines.results import record
from support.pipelines.stages import pipeline, rows, run, stage, use

SENTENCES = {
    "de": "Die Lampe gibt dem ganzen Zimmer Licht, und sie ist aus Messing gemacht.",
    "en": "The lamp gives light to the whole room, and it is made of brass.",
    "es": "La lámpara da luz a toda la habitación y está hecha de latón.",
    "fr": "La lampe éclaire toute la pièce, et elle est faite de laiton.",
    "ja": "このランプは部屋全体を照らし、真鍮でできています。",
    "nl": "De lamp geeft licht aan de hele kamer, en hij is gemaakt van messing.",
    "pl": "Lampa oświetla cały pokój i jest wykonana z mosiądzu.",
    "ru": "Лампа освещает всю комнату, она сделана из латуни.",
    "zh": "这盏灯照亮了整个房间。它是用黄铜制成的。",
}


@pytest.fixture(scope="module")
def languages() -> LanguageModel:
    """The model, loaded once."""
    return LanguageModel()


def test_texts_have_the_language_that_they_are_written_in(languages: LanguageModel) -> None:
    """Returns the code of each sentence, also if it stands between addresses of links."""
    for code, text in SENTENCES.items():
        found, score = languages.of(text)
        assert (found, score > 0.8) == (code, True), text
        links = " ".join(f"[{word}](https://en.example.com/the/{n})" for n, word in enumerate(text))
        assert languages.of(f"{text} {links} https://en.example.com/the/lamp")[0] == code


@pytest.mark.parametrize(
    "text",
    [
        *("", " \n", "OK", "2026-11-01", "SKU-1234-AB 12 34", "Login Register Cart Search Menu"),
        *("Hotel Berlin", "\ufffd" * 99, "x" * 5_000, "Facebook Twitter Instagram YouTube"),
    ],
)
def test_names_and_numbers_have_no_language(languages: LanguageModel, text: str) -> None:
    """Returns ``und`` with a score below one half."""
    code, score = languages.of(text)
    assert code == UNKNOWN
    assert score < 0.5


@given(text=st.text())
def test_every_text_has_a_language_or_none(languages: LanguageModel, text: str) -> None:
    """Returns the same code and probability each time, whatever the text is."""
    code, score = languages.of(text)
    assert languages.of(text) == (code, score)
    assert 0 <= score <= 1
    assert 2 <= len(code) <= 3


def test_only_the_beginning_of_a_text_is_read(languages: LanguageModel) -> None:
    """The language of a long page costs no more than that of its first 4 000 characters."""
    german, english = SENTENCES["de"] * 100, SENTENCES["en"] * 10_000
    assert languages.of(german + english) == languages.of(german)


def test_other_languages_than_those_of_a_closed_set_are_unknown() -> None:
    """A page in another language does not get the nearest one of the set."""
    few = LanguageModel(["de", "en"], 0.5)
    for code, text in SENTENCES.items():
        assert few.of(text)[0] == (code if code in ("de", "en") else UNKNOWN), text
    assert LanguageModel(["en"], 0.999_999).of("The lamp gives light")[0] == UNKNOWN


def test_the_language_is_added_to_the_page() -> None:
    """Reads the text of an earlier stage, or the visible text."""
    menu = "".join(f"<a href=/{n}>{SENTENCES['fr']}</a>" for n in range(5))
    page = f"<html lang=en><nav>{menu}</nav><main><p>{SENTENCES['de'] * 3}</main>".encode()
    (row,) = rows(pipeline(use("markdown", "language")), page)
    assert row["language"] == "de"
    assert row["language_score"] > 0.9
    described = pipeline(use("language"))
    (row,) = rows(described, page)
    assert row["language"] == "fr"
    (row,) = rows(described, b"%PDF", encoding="binary")
    assert row["language"] is row["language_score"] is None
    kinds = {column.name: str(column.kind) for column in Shape(described.stage, None).columns}
    assert (kinds["language"], kinds["language_score"]) == ("text", "64-bit floating point")


def test_items_have_a_language_of_the_field_that_is_named() -> None:
    """Null for an item without that field."""
    item = use("python:support.pipelines.shop:product")
    (row,) = rows(pipeline(item + stage('use = "language"\nof = "name"\nleast = 0')))
    assert row["language"] != UNKNOWN
    (row,) = rows(pipeline(item + stage('use = "language"\nof = "color"')))
    assert row["language"] is None


def test_pages_are_filtered_by_their_language() -> None:
    """Counts a page in none of the languages by the key."""
    described = pipeline(use("language") + stage('use = "where"\nlanguage = ["de", "ja"]'))
    for code, text in SENTENCES.items():
        outcome = run(described, f"<p>{text}".encode())
        assert (outcome.rows is not None) == (code in ("de", "ja"))
        assert outcome.filtered == ("" if outcome.rows else "where.language")


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("languages = []", "languages: expected a list of ISO 639 codes"),
        ('languages = ["German"]', "languages: expected a list of ISO 639 codes"),
        ("least = 2", "least: expected a number from 0 to 1"),
        ("least = true", "least: expected a number from 0 to 1"),
        ('of = ""', "of: expected text"),
        ('of = "txt"', "no stage before it makes the field 'txt': they make markdown, markdown_e"),
        ('use = "where"\nlanguage = "de"', "language: expected a list of ISO 639 codes"),
        ('use = "where"\nlanguage = ["de"]', "no stage before it makes the field 'language'"),
        ("model = 1", "unknown key 'model'; known: languages, least, of"),
    ],
)
def test_options_of_language_are_checked(option: str, told: str) -> None:
    """Checks the options of language when the file is read."""
    use_it = "" if option.startswith("use") else 'use = "language"\n'
    stages = use("markdown") + stage(use_it + option)
    with pytest.raises(ConfigError, match=told):
        pipeline(stages)


def test_a_language_that_the_model_does_not_know_is_refused() -> None:
    """Refuses an unknown language before a record is read, and lists those that are known."""
    described = pipeline(stage('use = "language"\nlanguages = ["de", "qq"]'))
    with pytest.raises(ConfigError, match=r"stage language: .* the language 'qq'; known: ace, af,"):
        Chain(described.plan)


def test_markdown_is_added_to_the_page() -> None:
    """Adds Markdown with absolute links, and its engine; null if the page is not HTML."""
    page = b"<main><h1>A lamp</h1><p><a href='/x' onclick=x()>more</a><script>x()</script>"
    (row,) = rows(pipeline(use("markdown")), page)
    assert row["markdown"] == "# A lamp\n\n[more](http://127.0.0.7:8080/x)"
    assert (row["markdown_engine"], row["markdown_truncated"]) == ("html-to-markdown", False)
    (row,) = rows(pipeline(use("markdown")), b"%PDF", encoding="binary")
    assert row["markdown"] is row["markdown_engine"] is row["markdown_truncated"] is None


def test_markdown_has_what_its_options_ask_for() -> None:
    """The whole page, without links, and only its beginning."""
    page = b"<nav>menu</nav><main><a href=/x>more</a>" + b"<p>some words</p>" * 200
    options = 'use = "markdown"\nmain = false\nlinks = "none"\nmax_chars = 1000'
    (row,) = rows(pipeline(stage(options)), page)
    assert row["markdown"].startswith("menu\n\nmore\n\nsome words\n\n")
    assert row["markdown"].endswith("some words")
    assert row["markdown_truncated"]
    assert len(row["markdown"]) <= 1000
    pages = "<div>" * 50_000 + "<p>some words</p>" * 20
    (row,) = rows(pipeline(use("markdown")), pages.encode())
    assert (row["markdown_engine"], row["markdown"][:10]) == ("scan", "some words")


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("links = 3", "links: expected one of inline, reference, none"),
        ("main = 1", "main: expected true or false"),
        ("max_chars = 1", "max_chars: expected a number from 1000 to 1000000"),
        ("max_chars = true", "max_chars: expected"),
        ("tables = true", "unknown key 'tables'; known: main, links, images, hidden, max_chars"),
    ],
)
def test_options_of_markdown_are_checked(option: str, told: str) -> None:
    """Checks the options of markdown when the file is read."""
    with pytest.raises(ConfigError, match=told):
        pipeline(stage(f'use = "markdown"\n{option}'))


PDF = {"response_headers": {b"Content-Type": [b"application/pdf"]}, "encoding": "binary"}


def test_the_content_of_a_document_is_added_to_the_page() -> None:
    """Fills the fields of stages before it, which read HTML only; null for other pages."""
    described = pipeline(use("page", "text", "document", "language"))
    text = "\n".join([SENTENCES["en"]] * 3)
    body = pdf(text, links=["/more"], title="A lamp", lang="en")
    (row,) = rows(described, body, **PDF)
    assert {name: row[name] for name in DOCUMENT} == {
        "text": text,
        "title": "A lamp",
        "author": None,
        "lang": "en",
        "page_count": 1,
        "document_links": ["http://127.0.0.7:8080/more"],
        "document_truncated": False,
        "document_error": None,
    }
    assert row["language"] == "en"
    (row,) = rows(described)
    assert (row["title"], row["lang"], row["page_count"]) == ("A shop", "de", None)
    assert {column.name for column in Shape(described.stage, None).columns} > {*DOCUMENT}


def test_a_document_whose_end_was_not_fetched_is_truncated() -> None:
    """Reports the cut body as the reason why a document may be unreadable."""
    result = replace(decode(record(1, body=pdf("a")[:300], **PDF)), body_truncated=True)
    (spec,) = pipeline(use("document")).stage
    (draft,) = Documents(spec.options).run(page_of(result), [Draft()])
    found = draft.fields["document_truncated"], draft.fields["document_error"]
    assert found == (True, "unreadable")


@pytest.mark.parametrize("option", ["max_pages = 0", "max_chars = 999", "max_chars = 1_000_001"])
def test_options_of_document_are_checked(option: str) -> None:
    """Checks the options of document when the file is read."""
    with pytest.raises(ConfigError, match="expected an integer from"):
        pipeline(stage(f'use = "document"\n{option}'))


@pytest.mark.parametrize("key", ["workers", "memory_mb"])
def test_documents_are_read_within_limits_only(key: str) -> None:
    """Refuses a pipeline whose workers have none."""
    with pytest.raises(ConfigError, match=rf"pipeline.a.{key}: the stage document runs only in"):
        pipeline(use("document"), more=f"{key} = 0")
    assert pipeline(use("document")).worker_count == 1


def test_pages_that_are_nearly_alike_share_bands() -> None:
    """Gives nearly equal texts a common band, whatever surrounds them; no words, no bands."""
    text = " ".join(f"word{number % 700}" for number in range(1_000))
    described = pipeline(use("markdown", "minhash"))
    made = []
    for page in (f"<nav>menu</nav><p>{text}", f"<h1>New</h1><p>{text}", "<p>another page", "<p>"):
        (row,) = rows(described, page.encode())
        made.append(row["minhash"])
    one, near, other, none = made
    assert (len(one), none) == (16, None)
    assert sum(map(eq, one, near)) > 8
    assert not any(map(eq, one, other))
    (column,) = (each for each in Shape(described.stage, None).columns if each.name == "minhash")
    assert column.kind == "list of 64-bit integers"


def test_a_file_has_the_version_of_its_sketches() -> None:
    """Values of two versions, or of other settings, must not be compared."""
    stages = use("markdown", "minhash") + stage('use = "fields"\nrename = {minhash = "sketch"}')
    schema = schema_of(Shape(pipeline(stages).stage, None).columns)
    assert schema.metadata == {b"crawlstream.sketch": b"1 words=3 bands=16 of="}
    assert schema.field("sketch").type == pa.list_(pa.int64())


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("bands = 10", "bands: expected one of 8, 16, 32"),
        ("words = 0", "words: expected an integer from 1 to 10"),
        ("seed = 1", "unknown key 'seed'; known: words, bands, of"),
    ],
)
def test_options_of_minhash_are_checked(option: str, told: str) -> None:
    """Checks the options of minhash when the file is read."""
    with pytest.raises(ConfigError, match=told):
        pipeline(stage(f'use = "minhash"\n{option}'))


class Missing:
    """Finder of modules for an installation without a package."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name: str, *_: object) -> None:
        """Raise ModuleNotFoundError for the package, as Python does."""
        if name == self._package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize(
    ("options", "package", "module"),
    [
        ('use = "text"\nengine = "resiliparse"', "resiliparse", ""),
        ('use = "document"', "pypdfium2", "pdf"),
        ('use = "language"', "py3langid", "language"),
        ('use = "minhash"', "rensa", "minhash"),
    ],
)
def test_a_package_that_is_missing_is_named(
    options: str, package: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names a missing package and the command that installs it, before a record is read."""
    for name in [each for each in sys.modules if each.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Missing(package), *sys.meta_path])
    monkeypatch.delitem(sys.modules, f"crawlstream_extract.{module}", raising=False)
    monkeypatch.delattr(crawlstream_extract, module or "none", raising=False)
    told = rf"the stage \w+ needs {package} of the extra \[extract\]: install it with"
    with pytest.raises(ConfigError, match=told):
        Chain(pipeline(stage(options)).plan)

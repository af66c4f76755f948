"""The file of the pipelines: what is meant is read, what cannot be meant is said in a sentence."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import pytest

from crawlstream.errors import ConfigError
from crawlstream.keys import Topics
from crawlstream.wire.delivered import decode
from pipeline_service.spec.choice import chosen
from pipeline_service.spec.config import Pipeline, load, read
from pipeline_service.spec.files_spec import FilesSpec
from pipeline_service.spec.lake import DeltaSpec, IcebergSpec
from pipeline_service.spec.memory import PagesSink
from pipeline_service.spec.sinks import KafkaSpec, SearchSpec, SqlSpec
from pipeline_service.spec.stages import KINDS as STAGES
from pipeline_service.spec.where import Where
from support.pipelines.results import record

PAGE = Path(__file__).parents[3] / "docs" / "pipelines.md"
KINDS = (FilesSpec, DeltaSpec, IcebergSpec, SqlSpec, KafkaSpec, SearchSpec)
ICE = 'kind = "iceberg", catalog = "c"'
SINK = 'sink = {kind = "files", path = "/x"}'


def one(text: str) -> Pipeline:
    """The pipeline of a text that has one, called a."""
    return read(f"[pipeline.a]\n{text}", {"BUCKET": "b"})["a"]


def test_what_is_not_said_has_its_default() -> None:
    """A name, a folder: that is enough."""
    pipeline = one(SINK)
    assert pipeline == Pipeline(name="a", sink=FilesSpec(path="/x"))
    assert pipeline.topic(Topics("p")) == "p.crawled_firehose"
    assert pipeline.group(Topics("p")) == "p.pipeline.a.1"


def test_everything_that_can_be_said_is_read() -> None:
    """Reads every key, with units and the values of variables."""
    pipeline = one(
        """
        source = "crawled_shop"
        start = 2026-11-01T00:00:00Z
        edition = 3
        repeats = 0
        keep_secrets = true
        respect = ["noarchive", "noindex"]
        stop_after_undelivered = 5
        [pipeline.a.where]
        appid = ["a"]
        status = ["2xx", "404"]
        mime = ["Text/HTML"]
        max_depth = 2
        url = "/p/"
        [pipeline.a.sink]
        kind = "files"
        path = "s3://${BUCKET}/c"
        format = "warc.gz"
        partition_by = ["date", "appid"]
        max_bytes = "1 GiB"
        max_records = 10
        max_age = "1.5m"
        """
    )
    assert pipeline.topic(Topics("p")) == "p.crawled_shop"
    assert pipeline.start == datetime(2026, 11, 1, tzinfo=UTC)
    assert pipeline.sink == FilesSpec(
        path="s3://b/c",
        format="warc.gz",
        partition_by=("date", "appid"),
        max_bytes=1 << 30,
        max_records=10,
        max_age=90,
    )
    assert pipeline.where == Where(
        appid=frozenset({"a"}),
        status=frozenset({*range(200, 300), 404}),
        mime=frozenset({"text/html"}),
        max_depth=2,
        url="/p/",
    )
    assert (pipeline.edition, pipeline.repeats, pipeline.keep_secrets) == (3, 0, True)
    assert pipeline.respect == ("noarchive", "noindex")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1", "the file: unknown key 'x'; known: pipeline"),
        ("", "it has no pipeline"),
        ("[pipeline.a", "not TOML: "),
        ("[pipeline.A]\n" + SINK, "pipeline.A: a name has 1 to 40 characters of a-z"),
        ("pipeline = 1", "pipeline: expected a table"),
        ("[pipeline.a]", r"pipeline.a: missing: sink = \{kind"),
        ("[pipeline.a]\nsink = 1", "pipeline.a.sink: expected a table"),
        (
            '[pipeline.a]\nsink = {kind = "x"}',
            "pipeline.a.sink.kind: expected one of files, delta, iceberg, sql",
        ),
        ('[pipeline.a]\nsink = {kind = "files"}', "pipeline.a.sink: missing: path = "),
        ('[pipeline.a]\nsink = {kind = "files", path = ""}', "sink.path: expected text"),
        ('[pipeline.a]\nsink = {kind = "files", path = "${NO}"}', "variable NO is not set"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(text: str, sentence: str) -> None:
    """Refuses a wrong file by the key, with the allowed values."""
    with pytest.raises(ConfigError, match=sentence):
        read(text, {})


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('source = "incoming"', 'source: expected "crawled", "crawled_" and an appid, or "req'),
        ('start = "yesterday"', 'start: expected "earliest", "latest" or a time'),
        ("start = 2026-11-01", 'start: expected "earliest", "latest" or a time'),
        ("edition = 0", "edition: expected an integer from 1"),
        ("edition = true", "edition: expected an integer from 1"),
        ("repeats = -1", "repeats: expected an integer from 0"),
        ('respect = ["nofollow"]', "respect: expected a list of noindex, noarchive, reserved"),
        ('respect = "noindex"', "respect: expected a list of noindex, noarchive"),
        ('keep_secrets = "yes"', "keep_secrets: expected true or false"),
        ("where = {colour = 1}", "where: unknown key 'colour'; known: appid"),
        ('where = {appid = "a"}', "where.appid: expected a list of texts"),
        ("where = {appid = []}", "where.appid: expected a list of texts"),
        ('where = {status = ["6xx"]}', "where.status: '6xx' is not a status"),
        ('where = {status = ["²00"]}', "where.status: '²00' is not a status"),
        ('where = {url = "("}', r"where.url: not an expression of RE2: missing \): \("),
        ("where = {max_depth = -1}", "where.max_depth: expected an integer from 0"),
        ('stages = "x"', "unknown key 'stages'; known: sink, source"),
        ('stage = "x"', "stage: expected tables, each"),
        ("workers = -1", "workers: expected an integer from 0"),
        ("memory_mb = 100", "memory_mb: expected an integer from 256"),
        ('timeout = "2h"', "timeout: expected a duration from 1 to 3600 seconds"),
        ("expect = 1", "expect: expected a table"),
        ("expect = {a = {valid = 2}}", "expect.a.valid: expected a share from 0 to 1"),
        ("expect = {items = {valid = 1}}", "expect.items: unknown key 'valid'; known: min"),
        ("expect = {items = {min = 0}}", "expect.items.min: expected an integer from 1 on"),
        ("expect = {a = {tolerance = 0.1}}", "expect.a: expected present or valid"),
        ("expect = {a = {valid = 1}}", "expect: there is no stage that makes fields"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(line: str, sentence: str) -> None:
    """Refuses a wrong value by its key."""
    with pytest.raises(ConfigError, match=sentence):
        one(f"{line}\n{SINK}")


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ('format = "csv"', "sink.format: expected one of jsonl, jsonl.gz"),
        ('partition_by = ["url"]', "sink.partition_by: expected a list of date, appid"),
        ('partition_by = ["date", "date"]', "sink.partition_by: expected a list of"),
        ('max_age = "0s"', "sink.max_age: expected a duration from 1 to 3600 seconds"),
        ('max_age = "2h"', "sink.max_age: expected a duration from 1 to 3600 seconds"),
        ('max_age = "5 parsec"', "sink.max_age: expected a duration"),
        ("max_bytes = 10", "sink.max_bytes: expected a size from 1024 bytes on"),
        ("max_records = 0", "sink.max_records: expected an integer from 1"),
        ("colour = 1", "sink: unknown key 'colour'; known: path, format"),
    ],
)
def test_a_sink_that_cannot_be_meant_is_refused(option: str, sentence: str) -> None:
    """Refuses a wrong sink before anything is written."""
    with pytest.raises(ConfigError, match=sentence):
        one(f'sink = {{kind = "files", path = "/x", {option}}}')


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Names the setting of a missing file, or one that is not text; a BOM is ignored."""
    with pytest.raises(ConfigError, match=r"cannot be read .* set CRAWLSTREAM_PIPELINES"):
        load(tmp_path / "none.toml", {})
    (tmp_path / "x.toml").write_text(f"[pipeline.a]\n{SINK}", encoding="utf-8-sig")
    assert list(load(tmp_path / "x.toml", {})) == ["a"]
    (tmp_path / "x.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        load(tmp_path / "x.toml", {})


def test_pipelines_are_chosen_by_name() -> None:
    """All where none is named; an unknown name is an error with the known ones."""
    known = read(f"[pipeline.a]\n{SINK}\n[pipeline.b]\n{SINK}", {})
    assert [each.name for each in chosen(known, ())] == ["a", "b"]
    assert [each.name for each in chosen(known, ["b"])] == ["b"]
    with pytest.raises(ConfigError, match="no pipeline 'c'; known: a, b"):
        chosen(known, ["c"])
    with pytest.raises(ConfigError, match=r"'a\.failures' is run by the pipeline 'a'"):
        chosen(known, ["a.failures"])


def test_processes_tell_another_file_from_theirs() -> None:
    """Compares files by a digest that reveals nothing of them."""
    assert one(SINK).digest == one(SINK).digest
    assert one(SINK).digest != one(f"edition = 2\n{SINK}").digest
    assert one(SINK).digest != one(f'respect = ["noindex"]\n{SINK}').digest
    assert re.fullmatch(r"[0-9a-f]{16}", one(SINK).digest)


def test_pages_are_left_out_by_their_directives() -> None:
    """Counts a page by the directive, one that `where` refuses by that."""
    pipeline = one(f'respect = ["noindex"]\nwhere = {{status = ["200"]}}\n{SINK}')
    said = {"noindex": ("noindex",), "": ("noarchive", "unavailable_after=99999999999")}
    said["noindex "] = ("unavailable_after=5",)
    for reason, directives in said.items():
        page = decode(record(1, directives=directives))
        assert pipeline.refuses(page) == reason.strip()
        assert one(SINK).refuses(page) == ""
    missing = decode(record(1, directives=("noindex",), status_code=404))
    assert pipeline.refuses(missing) == "where.status"
    reserving = one(f'respect = ["reserved"]\n{SINK}')
    for rights, reason in (({"reserved": True}, "reserved"), ({"reserved": False}, ""), (None, "")):
        page = decode(record(1, directives=("reserved", "noindex"), rights=rights))
        assert (reserving.refuses(page), one(SINK).refuses(page)) == (reason, "")
    memory = one('respect = ["noindex"]\nsink = {kind = "pages", url = "sqlite:///p.db"}')
    page = decode(record(1, directives=("noindex",)))
    assert (memory.refuses(page), memory.ban_of(page)) == ("", "noindex")
    assert not memory.stages_take(page)


def test_the_page_has_every_key(tmp_path: Path) -> None:
    """Documents every key, and shows a valid file."""
    text = PAGE.read_text(encoding="utf-8")
    not_keys = {"name", "sink", "folder", "table_name"}
    keys = [each.name for each in fields(Pipeline) if each.name not in not_keys]
    keys += [f"sink.{each.name}" for kind in KINDS for each in fields(kind) if each.repr]
    for key in keys:
        assert f"| `{key}` |" in text, key
    for each in fields(Where):
        assert f"`{each.name}`" in text, each.name
    documents = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    first, archive, rows, lake, topic, index, several, products = documents
    assert read(first, {})["first"].sink == FilesSpec(path="files", format="jsonl", max_age=10)
    assert read(archive, {"BUCKET": "b"})["archive"].sink == FilesSpec(
        path="/srv/crawl", format="parquet", max_age=900
    )
    url = "postgresql://crawl:secret@db/shop"
    assert read(rows, {"PGPASSWORD": "secret"})["pages"].sink == SqlSpec(url=url)
    assert read(lake, {"BUCKET": "b"})["lake"].sink == DeltaSpec(url="s3://b/pages")
    assert list(read(several, {})) == ["shop-files", "shop-sql"]
    assert read(topic, {})["slim"].sink == KafkaSpec(topic="pages")
    url = "https://crawl:secret@search:9200"
    assert read(index, {"PASSWORD": "secret"})["docs"].sink == SearchSpec(url=url)
    (tmp_path / "product.schema.json").write_text("{}")
    stages = read(products, {}, tmp_path)["products"].stage
    assert [spec.label for spec in stages] == ["product", "clean", "validate"]
    for stage in STAGES:
        assert f"| `{stage}" in text, stage


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ('kind = "kafka"', 'sink: missing: topic = "a topic\'s whole name"'),
        ('kind = "kafka", topic = "a b"', "sink.topic: expected 1 to 249 characters of A-Z"),
        ('kind = "kafka", topic = ".."', "sink.topic: expected 1 to 249 characters of A-Z"),
        ('kind = "kafka", topic = "a", exactly_once = 1', "sink.exactly_once: expected true or"),
        (
            'kind = "mongo", url = "x"',
            "sink.kind: expected one of files, delta, iceberg, sql, kafka, search, pages$",
        ),
        (
            "kind = 1",
            "sink.kind: expected one of files, delta, iceberg, sql, kafka, search, pages$",
        ),
        ('kind = "delta"', 'sink: missing: url = "/folder" or "s3://bucket/folder"'),
        ('kind = "delta", url = "ftp://h/x"', 'url: expected a folder, or "s3://bucket/folder"'),
        ('kind = "delta", url = "x", max_age = 1', "max_age: expected a duration from 5 to 3600 s"),
        ('kind = "delta", url = "x", body = "b"', "sink.body: expected one of none, bytes, ref"),
        (
            'kind = "iceberg", url = "x"',
            r'sink: missing: catalog = "NAME" of a table \[iceberg.NAME',
        ),
        (f"{ICE}, url = 'x', table = 'pages'", 'sink.table: expected "namespace.name"'),
        (f"{ICE}, url = 'x#1', table = 'a.b'", "sink.url: expected a folder without '#'"),
        (f"{ICE}, url = 'x', table = 'a.b'", "sink.catalog: expected the NAME .*: there is none"),
        (f"{ICE}, url = 'x', table = 'a.b', properties = {{}}", "unknown key 'properties'"),
        ('kind = "delta", url = "x", format = "c"', "unknown key 'format'; known: url, partition_"),
    ],
)
def test_a_kind_of_sink_that_cannot_be_meant_is_refused(options: str, sentence: str) -> None:
    """Refuses a wrong kind of sink by the key, with the allowed values."""
    with pytest.raises(ConfigError, match=sentence):
        one(f"sink = {{{options}}}")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("migrate = true", 'missing: url = "postgresql://'),
        ('url = "mysql://x/y"', r'sink.url: expected "postgresql://user:password@host'),
        ('url = "sqlite://x"', "sink.url: expected three slashes and a path"),
        ('url = "sqlite:///x", table = "a;b"', "sink.table: expected 1 to 63 characters of a-z"),
        ('url = "sqlite:///x", table = "1a"', "sink.table: expected 1 to 63 characters of a-z"),
        ('url = "sqlite:///x", body = "all"', "sink.body: expected one of none, bytes, ref"),
        ('url = "sqlite:///x", on_repeat = 1', "sink.on_repeat: expected one of keep, replace"),
        ('url = "sqlite:///x", migrate = 1', "sink.migrate: expected true or false"),
        ('url = "sqlite:///x", path = "/y"', "unknown key 'path'; known: url, table"),
    ],
)
def test_a_database_that_cannot_be_meant_is_refused(options: str, sentence: str) -> None:
    """Refuses a wrong database by the key, with the allowed values."""
    with pytest.raises(ConfigError, match=sentence):
        one(f'sink = {{kind = "sql", {options}}}')


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ('index = "a"', 'missing: url = "https://user:'),
        ('url = "search:9200"', 'sink.url: expected "https://user:password@host:port"'),
        ('url = "http://h:99999"', "sink.url: Failed to parse"),
        ('url = "http://h", index = "A"', "sink.index: expected 1 to 200 characters of a-z"),
        ('url = "http://h", index = "_a"', "sink.index: expected .* letter or digit first"),
        ('url = "http://h", document = "url"', "sink.document: expected one of page, visit"),
        ('url = "http://u:p@h", api_key = "k"', "url has a user besides the api_key"),
        ('url = "http://h", table = "a"', "unknown key 'table'; known: url, index"),
    ],
)
def test_an_index_that_cannot_be_meant_is_refused(options: str, sentence: str) -> None:
    """Refuses a wrong index by the key, with the allowed values."""
    with pytest.raises(ConfigError, match=sentence):
        one(f'sink = {{kind = "search", {options}}}')


SEVERAL = """
[pipeline.shop]
where = {status = ["200"]}
stage = [{use = "page"}]
[[pipeline.shop.sinks]]
kind = "files"
path = "/x"
[[pipeline.shop.sinks]]
kind = "sql"
url = "sqlite:///a"
[[pipeline.shop.sinks]]
kind = "sql"
url = "sqlite:///b"
[[pipeline.shop.sinks]]
kind = "pages"
url = "sqlite:///c"
[pipeline.shop.visits]
per_day = 5
"""


def test_several_sinks_are_several_pipelines() -> None:
    """Each with the same pages and stages, a name and a group of its own; visits are a memory's."""
    found = read(f"{SEVERAL}\n[pipeline.b]\n{SINK}", {})
    names = ["shop-files", "shop-sql", "shop-sql-2", "shop-pages"]
    assert list(found) == [*names, "b"]
    assert len({each.group(Topics("p")) for each in found.values()}) == 5
    assert {found[name].where for name in names} == {Where(status=frozenset({200}))}
    assert all(found[name].stage[0].kind == "page" for name in names)
    assert [type(found[name].sink) for name in names] == [FilesSpec, SqlSpec, SqlSpec, PagesSink]
    assert [found[name].visits is None for name in names] == [True, True, True, False]
    assert [each.name for each in chosen(found, ["shop"])] == names
    assert [each.name for each in chosen(found, ["shop-sql", "shop"])] == [
        "shop-sql",
        *("shop-files", "shop-sql-2", "shop-pages"),
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"{SINK}\nsinks = []", "sink is one, sinks are several: remove one"),
        ("sinks = []", r"pipeline.a.sinks: expected tables, each \[\[pipeline.a.sinks\]\]"),
        ('sinks = [{path = "/x"}]', "pipeline.a-sink.sink"),
        (
            f'sinks = [{{kind = "files", path = "/x"}}]\n[pipeline.a-files]\n{SINK}',
            "pipeline.a-files: another pipeline has this name",
        ),
    ],
)
def test_sinks_that_cannot_be_meant_are_refused(text: str, sentence: str) -> None:
    """Refuses wrong sinks by the key, with the allowed values."""
    with pytest.raises(ConfigError, match=sentence):
        one(text)


def test_relative_paths_begin_in_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipeline stores in one place, whichever folder a command or a cluster runs in."""
    shop, elsewhere = tmp_path / "shop", tmp_path / "home"
    for folder in (shop, elsewhere):
        folder.mkdir()
    (shop / "pipelines.toml").write_text(
        '[pipeline.a]\nsink = {kind = "files", path = "files"}\n'
        '[pipeline.b]\nsink = {kind = "sql", url = "sqlite:///b.db"}\n'
        '[pipeline.c]\nsink = {kind = "files", path = "s3://c/d"}\n'
        '[pipeline.d]\nsink = {kind = "pages", url = "sqlite:////d.db"}\n'
        '[pipeline.e]\nsink = {kind = "search", url = "https://e", ca = "ca.pem"}\n'
    )
    monkeypatch.chdir(elsewhere)
    found = load(Path("../shop/pipelines.toml"), {})
    assert {name: pipeline.place for name, pipeline in found.items()} == {
        "a": f"{shop}/files/a/edition=1",
        "b": f"sqlite:///{shop}/b.db",
        "c": "s3://c/d/c/edition=1",
        "d": "sqlite:////d.db",
        "e": "",
    }
    index = found["e"].sink
    assert isinstance(index, SearchSpec)
    assert index.ca == f"{shop}/ca.pem"
    for left in ("files/a/edition=1", "b.db"):
        (elsewhere / left).mkdir(parents=True)
        with pytest.raises(ConfigError, match=f"{left} is from an earlier version.* move it to "):
            load(shop / "pipelines.toml", {})
        (shop / left).mkdir(parents=True)
        load(shop / "pipelines.toml", {})


def test_a_catalog_is_of_the_file(tmp_path: Path) -> None:
    """Its properties are filled in, its file is in the folder, and no digest has its secrets."""
    text = f"""
        [iceberg.c]
        type = "sql"
        uri = "sqlite:///a.db"
        token = "${{BUCKET}}"
        [pipeline.a]
        sink = {{{ICE}, table = "web.pages", url = "lake"}}
    """
    pipeline = read(text, {"BUCKET": "hidden"}, tmp_path)["a"]
    assert isinstance(pipeline.sink, IcebergSpec)
    uri = f"sqlite:///{tmp_path}/a.db"
    assert pipeline.sink.properties == {"type": "sql", "uri": uri, "token": "hidden"}
    assert pipeline.place == str(tmp_path / "lake")
    assert "hidden" not in repr(pipeline)
    for wrong, why in (
        ("c = 1", "iceberg.c: expected a table"),
        ("c.uri = 1", "c.uri: expected t"),
    ):
        with pytest.raises(ConfigError, match=why):
            read(f"[iceberg]\n{wrong}\n[pipeline.a]\n{SINK}", {})

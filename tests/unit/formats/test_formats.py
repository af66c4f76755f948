"""Files of pages: whole, the same each time, and read by others' tools."""

from __future__ import annotations

import gzip
import hashlib
import io
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from warcio.archiveiterator import ArchiveIterator

from crawlstream.errors import ConfigError, CrawlstreamError
from crawlstream.model.delivered import Delivered
from crawlstream.model.result import AsSent, digest_of
from crawlstream.wire.delivered import decode
from crawlstream_cli.crawl.output import whole_file
from pipeline_service.formats.cdxj import surt
from pipeline_service.formats.columns import COLUMNS
from pipeline_service.formats.files import FORMATS, Crawl, format_of, make_writer
from pipeline_service.formats.parquet import schema_of
from support.pipelines.reading import pages_of
from support.pipelines.results import PAGE, page_id, record

CRAWL = Crawl("crawlstream/test", "bot (+https://example.com/)", "obey")
RECORDS = [
    record(0),
    record(1, body=b"\x89PNG\0", encoding=None, response_headers={}),
    record(2, body=b"", status_code=304),
    record(3, body="é".encode("utf-16"), encoding="utf-16"),
    record(4, status_code=799, ip=None, attrs=None, links=[]),
    record(5, url="http://h/\r\nWARC-Type: evil", response_url="http://h/a b\r\nX: y"),
    record(
        6, response_headers={b"A\r\nB": [b"c\r\n\r\nbody", b"\0"], b"": [b""], b"x:y": [b"\xff"]}
    ),
    record(7, response_url="http://é/é?é", request_headers={"¡é".encode(): ["é".encode()]}),
    record(8, as_sent=AsSent(b"HTTP/1.1 200 OK\r\n\r\nWARC/1.1\r\nWARC-Type: evil\n")),
    record(9, as_sent=AsSent(b"\n\r\n")),
]
"""Text, binary, empty, another charset, strange, and hostile."""


def written(which: str, records: list[bytes]) -> bytes:
    """A file of records."""
    file = io.BytesIO()
    writer = make_writer(which, file, CRAWL)
    for value in records:
        writer.write(value, decode(value))
    writer.close()
    return file.getvalue()


@pytest.mark.parametrize("which", FORMATS)
def test_every_page_is_in_the_file_with_its_bytes(which: str) -> None:
    """In order, whatever a body holds."""
    found = pages_of(which, written(which, RECORDS))
    assert found == [(decode(value).id, decode(value).body) for value in RECORDS]


@pytest.mark.parametrize("which", FORMATS)
def test_the_same_pages_make_the_same_file(which: str) -> None:
    """So that a file that is made again replaces itself."""
    assert written(which, RECORDS) == written(which, RECORDS)


@pytest.mark.parametrize("which", FORMATS)
def test_a_file_without_pages_can_be_read(which: str) -> None:
    """As one that has none."""
    assert pages_of(which, written(which, [])) == []


def test_json_lines_are_the_records_as_they_are() -> None:
    """An object per line, also if a user has laid one out over several."""
    laid_out = orjson.dumps(orjson.loads(RECORDS[0]), option=orjson.OPT_INDENT_2)
    lines = written("jsonl", [RECORDS[1], laid_out]).splitlines()
    assert lines == [RECORDS[1], RECORDS[0]]


def test_a_warc_says_what_was_asked_and_answered(tmp_path: Path) -> None:
    """By others' checker it is in order; codings that were undone are not claimed any more."""
    file = tmp_path / "pages.warc.gz"
    file.write_bytes(written("warc.gz", RECORDS))
    checked = subprocess.run(
        [sys.executable, "-m", "warcio.cli", "check", "-v", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    records = [
        (each.rec_type, each.rec_headers, each.http_headers, each.content_stream().read())
        for each in ArchiveIterator(io.BytesIO(file.read_bytes()))
    ]
    kinds = [kind for kind, *_ in records]
    answers = ["response"] * 2 + ["revisit"] + ["response"] * 7
    assert kinds == ["warcinfo"] + [k for a in answers for k in (a, "request", "metadata")]
    assert b"software: crawlstream/test" in records[0][3]
    _, about, http, body = records[1]
    assert about.get_header("WARC-Target-URI") == PAGE.response_url
    assert about.get_header("WARC-Date") == "2026-11-21T08:52:34.786542Z"
    assert about.get_header("WARC-IP-Address") == PAGE.ip
    assert about.protocol == "WARC/1.1"
    assert http.statusline == "200 OK"
    assert http.get_header("X-Crawler-Content-Encoding") == "gzip"
    assert http.get_header("Content-Encoding") is None
    assert body == PAGE.body
    asked = records[2][2]
    assert (asked.protocol, asked.statusline) == ("GET", "/a?b=c HTTP/1.1")
    assert asked.get_header("Host") == "127.0.0.7:8080"
    place = orjson.loads(records[3][3])
    assert (place["crawlid"], place["links"][0]["text"]) == ("job", "Bee")


def test_a_warc_has_responses_as_they_were_sent() -> None:
    """Heads have the bytes of the site, except the form of the message; bodies are coded."""
    packed = gzip.compress(PAGE.body)
    head = b"HTTP/2 200 \r\nset-Cookie: \xe9\r\ncontent-encoding:  gzip\n"
    cut = {"head": "HTTP/1.1 200 OK\r\n", "body_left_out": True}
    file = written(
        "warc.gz",
        [
            record(0, as_sent=AsSent(head, packed)),
            record(1, as_sent=AsSent(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n")),
            orjson.dumps(orjson.loads(record(2)) | {"as_sent": cut}),
        ],
    )
    found = [
        (each.rec_headers, each.content_stream().read())
        for each in ArchiveIterator(io.BytesIO(file), check_digests="raise")
        if each.rec_type == "response"
    ]
    stored = gzip.decompress(file)
    assert head.replace(b"HTTP/2", b"HTTP/1.1") + b"\r\n" + packed in stored
    assert b" OK\r\nX-Crawler-Transfer-Encoding: chunked\r\n\r\n" + PAGE.body in stored
    assert b"X-Crawler-Content-Encoding: gzip" in stored
    assert [body for _, body in found] == [PAGE.body] * 3
    assert [about.get_header("WARC-Protocol") for about, _ in found] == ["h2", None, None]
    assert found[0][0].get_header("WARC-Payload-Digest") == digest_of(packed)


def test_a_warc_has_the_screenshot_of_a_page() -> None:
    """Writes a picture of the record as a resource; one in the body store is in the metadata."""
    told = {"width": 1, "ref": "s3://bodies/9f"}
    values = [record(1, screenshot={}, screenshot_body=b"\x89PNG"), record(2, screenshot=told)]
    file = io.BytesIO(written("warc.gz", values))
    found = [
        (each.rec_type, each.rec_headers, each.content_stream().read())
        for each in ArchiveIterator(file, check_digests="raise")
    ]
    rest = ["response", "request", "metadata"]
    assert [kind for kind, *_ in found] == ["warcinfo", *rest[:2], "resource", "metadata", *rest]
    _, about, png = found[3]
    assert about.get_header("WARC-Target-URI") == f"urn:view:{PAGE.response_url}"
    assert about.get_header("WARC-Concurrent-To") == found[1][1].get_header("WARC-Record-ID")
    assert (about.get_header("Content-Type"), png) == ("image/png", b"\x89PNG")
    assert orjson.loads(found[-1][2])["screenshot"] == told


def test_a_warc_says_why_a_body_is_only_a_beginning() -> None:
    """By the reasons of ISO 28500: cut at the limit, or broken off by the site."""
    marks: Sequence[Mapping[str, bool]] = (
        {},
        {"body_truncated": True},
        {"incomplete": True},
        {"incomplete": False},
    )
    values = [orjson.dumps(orjson.loads(record(1)) | mark) for mark in marks]
    records = ArchiveIterator(io.BytesIO(written("warc.gz", values)))
    answers = [each.rec_headers for each in records if each.rec_type == "response"]
    reasons = [headers.get_header("WARC-Truncated") for headers in answers]
    assert reasons == [None, "length", "unspecified", None]


def test_a_warc_has_metadata_in_place_of_a_response_without_its_body() -> None:
    """Such a page has the same id; its request, and the reason, are there."""
    value = orjson.dumps(orjson.loads(record(1)) | {"body": "", "dropped": "noindex"})
    records = [
        (each.rec_type, each.rec_headers, each.content_stream().read())
        for each in ArchiveIterator(io.BytesIO(written("warc.gz", [record(1), value])))
    ]
    kinds = [kind for kind, *_ in records]
    assert kinds == ["warcinfo", "response", "request", "metadata", "request", "metadata"]
    names = [about.get_header("WARC-Record-ID") for _, about, _ in records]
    assert names[5] == names[1]
    assert records[4][1].get_header("WARC-Concurrent-To") == names[5]
    assert orjson.loads(records[5][2])["dropped"] == "noindex"


def test_hostile_text_makes_no_record_of_its_own() -> None:
    """Neither a URL nor a header ends the line that it stands in."""
    for each in ArchiveIterator(io.BytesIO(written("warc.gz", RECORDS[5:]))):
        assert each.rec_headers.get_header("WARC-Type") == each.rec_type != "evil"
        assert each.rec_headers.get_header("X") is None


@pytest.mark.parametrize("which", FORMATS)
@pytest.mark.parametrize("url", ["http://[x/a?b=c", "http://[::1", "http://a\uff0fb.com/"])
def test_a_page_with_an_invalid_url_stops_no_file(which: str, url: str) -> None:
    """Writes a page whose URL cannot be parsed, and continues with the next one."""
    records = [record(0, url=url, response_url=url), record(1)]
    assert [page.id for page in pages_of(which, written(which, records))] == [
        page_id(0),
        page_id(1),
    ]


def test_a_parquet_file_has_the_columns_of_the_table() -> None:
    """Each with the type that it is said to have."""
    table = parquet.read_table(io.BytesIO(written("parquet", RECORDS)))
    assert table.schema.equals(schema_of(COLUMNS))
    assert table.column_names == [column.name for column in COLUMNS]
    row: dict[str, Any] = table.to_pylist()[0]
    assert row["status_code"] == 200
    assert row["timestamp"].timestamp() == PAGE.timestamp
    assert dict(row["response_headers"])["X-Two"] == ["1", "2"]
    assert row["links"] == [{"url": "http://127.0.0.7:8080/b", "text": "Bee"}]
    assert orjson.loads(row["attrs"]) == {"k": [1, None]}
    assert table.to_pylist()[4]["attrs"] is None


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=9), each, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=100)
@given(st.sampled_from(sorted(orjson.loads(record(1)))), json)
def test_whatever_is_decoded_can_be_written(field: str, value: Any) -> None:
    """In every format: a record that a writer would choke on is none."""
    try:
        encoded = orjson.dumps(orjson.loads(record(1)) | {field: value, "new": value})
        page = decode(encoded)
    except (TypeError, CrawlstreamError):
        return
    for which in FORMATS:
        assert pages_of(which, written(which, [encoded, encoded])) == [
            (page.id, page.body)
        ] * 2 or (field == "id")


def test_a_format_is_known_by_the_end_of_a_name() -> None:
    """The longest that fits; others are none."""
    assert format_of("a.jsonl") == "jsonl"
    assert format_of("A.JSONL.ZST") == "jsonl.zst"
    assert format_of("a.b.warc.gz") == "warc.gz"
    assert format_of("a.warc") is format_of("jsonl") is format_of("a.csv") is None


def test_a_library_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what has it."""
    monkeypatch.delitem(sys.modules, "pipeline_service.formats.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"needs pyarrow of the extra \[pipeline\]"):
        make_writer("parquet", io.BytesIO(), CRAWL)


@pytest.mark.parametrize("which", FORMATS)
def test_a_file_has_its_name_when_it_is_whole(which: str, tmp_path: Path) -> None:
    """Before, there is none, or the former one; an interrupted file is whole, too."""
    path = tmp_path / "new" / f"pages.{which}"

    def interrupted() -> None:
        with whole_file(path, which, CRAWL) as writer:
            writer.write(RECORDS[0], decode(RECORDS[0]))
            assert not path.exists()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert pages_of(which, path.read_bytes()) == [(page_id(0), PAGE.body)]
    with whole_file(path, which, CRAWL):
        assert pages_of(which, path.read_bytes()) == [(page_id(0), PAGE.body)]
    assert pages_of(which, path.read_bytes()) == []
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_write_that_fails_leaves_the_former_file(tmp_path: Path) -> None:
    """And is reported with the reason."""
    path = tmp_path / "pages.jsonl"
    path.write_bytes(b"before")
    page = decode(RECORDS[0])

    def fill() -> None:
        with Path("/dev/full").open("wb", 0) as full, whole_file(path, "jsonl", CRAWL) as writer:
            writer._writer._file = full  # type: ignore[attr-defined]
            writer.write(RECORDS[0], page)

    with pytest.raises(CrawlstreamError, match=r"cannot write results to .*: No space left"):
        fill()
    assert path.read_bytes() == b"before"


def test_a_device_is_written_to_as_it_is() -> None:
    """It has no place next to it."""
    with whole_file(Path("/dev/null"), "jsonl", CRAWL) as writer:
        writer.write(RECORDS[0], replace(decode(RECORDS[0]), run=2))
    assert not Path("/dev/null").is_file()


KEYS = {
    "http://www.Example.com:80/": "com,example)/",
    "https://WWW2.example.com/A/?b=2&a=1&a": "com,example)/a?a&a=1&b=2",
    "https://u:p@example.com:8443/a//b/": "com,example:8443)/a/b",
    "http://127.0.0.7:8080/a?b=c": "7,0,0,127:8080)/a?b=c",
    "http://example.com/%7Ea%20b%2525/%C3%89": "com,example)/~a%20b%25/%c3%89",
    "http://example.com/?": "com,example)/",
    "http://xn--bcher-kva.example/x;y?q=%2B": "example,xn--bcher-kva)/x;y?q=+",
}
"""Keys of URLs as another library computes them."""


@pytest.mark.parametrize("url", KEYS)
def test_a_url_has_the_key_that_players_look_up(url: str) -> None:
    """Lower case, reversed host, sorted parameters."""
    assert surt(url) == KEYS[url]


def test_a_wacz_has_an_index_of_its_warc_and_a_list_of_its_pages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each line leads to the record of its URL; digests and sizes are those of the parts.

    Lines beyond the memory are sorted in files, and a large archive has several WARC files.
    """
    monkeypatch.setattr("pipeline_service.formats.wacz._LARGEST_WARC", 100_000)
    monkeypatch.setattr("pipeline_service.formats.cdxj._IN_MEMORY", 1000)
    path = tmp_path / "site.wacz"
    image = record(500, response_url="http://127.0.0.7/s.svg", kind="requisite")
    values = [record(n, response_url=f"http://127.0.0.7/{n * 7 % 400}") for n in range(400)]
    with whole_file(path, "wacz", CRAWL) as writer:
        for value in [image, *RECORDS, *values]:
            writer.write(value, decode(value))
    assert list(tmp_path.iterdir()) == [path]
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
        assert {each.compress_type for each in archive.infolist()} == {zipfile.ZIP_STORED}
        # Players take the data to begin behind the name.
        heads = [path.read_bytes()[each.header_offset :][26:30] for each in archive.infolist()]
        assert {head[2:] for head in heads} == {b"\0\0"}
    assert len([name for name in parts if name.startswith("archive/")]) > 2
    package = orjson.loads(parts["datapackage.json"])
    for one in package["resources"]:
        assert (len(parts[one["path"]]), sha256(parts[one["path"]])) == (one["bytes"], one["hash"])
    assert orjson.loads(parts["datapackage-digest.json"]) == {
        "path": "datapackage.json",
        "hash": sha256(parts["datapackage.json"]),
    }
    first, *blocks = parts["indexes/index.idx"].splitlines()
    assert first == b'!meta 0 {"format":"cdxj-gzip-1.0","filename":"index.cdx.gz"}'
    lines = gzip.decompress(parts["indexes/index.cdx.gz"]).splitlines()
    assert lines == sorted(lines)
    assert [block.partition(b" {")[0] for block in blocks] == [
        line.partition(b" {")[0] for line in lines[::300]
    ]
    for line in lines:
        key, at, place = line.split(b" ", 2)
        told = orjson.loads(place)
        begin = int(told["offset"])
        part = io.BytesIO(parts[f"archive/{told['filename']}"][begin : begin + int(told["length"])])
        (found,) = ArchiveIterator(part)
        assert found.rec_headers.get_header("WARC-Target-URI").encode() == told["url"].encode()
        assert found.rec_headers.get_header("WARC-Payload-Digest") == told["digest"]
        assert (key, at) == (surt(told["url"]).encode(), b"20261121085234")
    about, *pages = map(orjson.loads, parts["pages/pages.jsonl"].splitlines())
    assert package["mainPageUrl"] == decode(RECORDS[0]).seed_url
    assert b"7/s.svg" in b"".join(lines)
    assert about["format"] == "json-pages-1.0"
    assert len(pages) == len([page for page in map(decode, [*RECORDS, *values]) if shown(page)])
    assert pages[-1]["text"] == 'é / "q"'


def shown(page: Delivered) -> bool:
    """Return whether people can look at it."""
    return page.status_code == 200 and page.encoding != "binary"


def sha256(data: bytes) -> str:
    """The digest of a part."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"

"""Contents of the files of a pipeline, as readers of each format see them."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import zstandard
from pyarrow import parquet
from warcio.archiveiterator import ArchiveIterator

from crawlstream.store.store import Store
from crawlstream.wire.delivered import decode


class Page(NamedTuple):
    """A page in a file."""

    id: str
    body: bytes


def pages_in(store: Store, which: str) -> Sequence[Page]:
    """Every page of every file of a format; a reader goes by the ending and skips ``_log``."""
    names = [name for name in store.list() if name.endswith(f".{which}")]
    assert not any(name.startswith("_log") for name in names)
    return [page for name in names for page in pages_of(which, store.get(name) or b"")]


def pages_of(which: str, content: bytes) -> Sequence[Page]:
    """The pages of one file."""
    if which == "parquet":
        rows = parquet.read_table(io.BytesIO(content)).to_pylist()
        return [Page(row["id"], row["body"]) for row in rows]
    if which == "wacz":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [name for name in archive.namelist() if name.startswith("archive/")]
            return [page for name in names for page in pages_of("warc.gz", archive.read(name))]
    if which == "warc.gz":
        return list(_warc_pages(content))
    unpack: dict[str, Callable[[bytes], bytes]] = {
        "jsonl": bytes,
        "jsonl.gz": gzip.decompress,
        "jsonl.zst": _unzstd,
    }
    pages = map(decode, unpack[which](content).splitlines())
    return [Page(page.id, page.body) for page in pages]


def _unzstd(content: bytes) -> bytes:
    return zstandard.ZstdDecompressor().stream_reader(content).read()


_UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "jsonl": bytes,
    "jsonl.gz": gzip.decompress,
    "jsonl.zst": _unzstd,
}


def _warc_pages(content: bytes) -> Iterator[Page]:
    for each in ArchiveIterator(io.BytesIO(content), check_digests="raise"):
        if each.rec_type in {"response", "revisit"}:
            name = each.rec_headers.get_header("WARC-Record-ID")
            yield Page(name[10:-1].replace("-", ""), each.content_stream().read())

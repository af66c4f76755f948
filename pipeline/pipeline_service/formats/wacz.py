"""WACZ 1.1.1: a WARC file with its index and a list of its pages, as a ZIP file that players open.

The WARC and its index are stored, not compressed again, so that a player on the web reads only the
parts that it shows. The parts are made in a folder next to the file, which takes as much
space as the file.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from crawlstream.model.delivered import Delivered
from crawlstream.wire import jsontext
from crawlstream_extract.page_tree import is_html, text_of
from crawlstream_extract.scan import scanned
from pipeline_service.formats.cdxj import CdxjIndex
from pipeline_service.formats.columns import Column
from pipeline_service.formats.files import Crawl
from pipeline_service.formats.warc import Warc

_VERSION = "1.1.1"
_WARC, _PAGES = "archive/data-{}.warc.gz", "pages/pages.jsonl"
_INDEX, _BLOCKS = "indexes/index.cdx.gz", "indexes/index.idx"
_PACKAGE, _DIGEST = "datapackage.json", "datapackage-digest.json"
_LARGEST_WARC = 1024 * 1024 * 1024
"""Bytes after which another WARC file begins: players do not read ZIP entries of over 4 GB."""
_MOST_READ = 1024 * 1024
"""Bytes of a page that are read for its title and its text."""
_MOST_TEXT = 100_000
"""Characters of the text of a page, which players search."""
_MOST_TITLE = 500
_TITLE = re.compile(r"<title[^>]*+>([^<]*+)", re.IGNORECASE)
_PART = 1024 * 1024
_TIME = "%Y-%m-%dT%H:%M:%SZ"


class Wacz:
    """Writer of a WACZ file."""

    def __init__(self, file: BinaryIO, crawl: Crawl, columns: Sequence[Column]) -> None:
        self._file = file
        self._crawl = crawl
        self._columns = columns
        self._folder = _folder_beside(file)
        self._parts = Path(self._folder.name)
        for name in (_WARC, _INDEX, _PAGES):
            (self._parts / name).parent.mkdir()
        self._index = CdxjIndex(self._parts / "lines")
        self._warcs: list[str] = []
        self._begin_warc()
        self._pages = (self._parts / _PAGES).open("wb")
        about = {"format": "json-pages-1.0", "id": "pages", "title": "All pages", "hasText": True}
        self._pages.write(jsontext.dumps(about) + b"\n")
        self._first: Delivered | None = None
        self._latest = datetime(1980, 1, 1, tzinfo=UTC)

    def write(self, value: bytes, page: Delivered) -> None:
        """Add the records of a page, and the page to the list if people can look at it."""
        if self._warc_file.tell() > _LARGEST_WARC:
            self._warc_file.close()
            self._begin_warc()
        self._warc.write(value, page)
        self._latest = max(self._latest, page.timestamp)
        if not page.is_page:
            return
        self._first = self._first or page
        if page.status_code // 100 == 2 and is_html(page.mime, page.encoding, page.body):
            self._pages.write(jsontext.dumps(_listed(page)) + b"\n")

    def _begin_warc(self) -> None:
        self._warcs.append(_WARC.format(len(self._warcs)))
        self._warc_file = (self._parts / self._warcs[-1]).open("wb")
        self._warc = Warc(self._warc_file, self._crawl, self._columns, index=self._index)

    def close(self) -> None:
        """Write the ZIP file."""
        with self._folder:
            self._warc_file.close()
            self._pages.close()
            with (
                (self._parts / _INDEX).open("wb") as data,
                (self._parts / _BLOCKS).open("wb") as blocks,
            ):
                self._index.write_blocks(data, blocks, Path(_INDEX).name)
            names = [*self._warcs, _INDEX, _BLOCKS, _PAGES]
            with zipfile.ZipFile(self._file, "w") as archive:
                resources = [self._add(archive, name) for name in names]
                package = jsontext.dumps(self._package(resources), indent=True)
                digest = {"path": _PACKAGE, "hash": _named(hashlib.sha256(package).hexdigest())}
                archive.writestr(self._entry(_PACKAGE), package)
                archive.writestr(self._entry(_DIGEST), jsontext.dumps(digest, indent=True))

    def _add(self, archive: zipfile.ZipFile, name: str) -> dict[str, object]:
        """Add a part; return its entry in the list of resources."""
        path, digest, entry = self._parts / name, hashlib.sha256(), self._entry(name)
        # Known before, so that there is no field that players do not expect in front of the data.
        entry.file_size = path.stat().st_size
        with path.open("rb") as part, archive.open(entry, "w") as out:
            while data := part.read(_PART):
                out.write(data)
                digest.update(data)
        hashed = _named(digest.hexdigest())
        return {"name": path.name, "path": name, "hash": hashed, "bytes": entry.file_size}

    def _entry(self, name: str) -> zipfile.ZipInfo:
        """Return the head of a part, with the time of the latest page: equal pages, equal files."""
        entry = zipfile.ZipInfo(name, self._latest.timetuple()[:6])
        entry.compress_type = zipfile.ZIP_STORED
        return entry

    def _package(self, resources: Sequence[dict[str, object]]) -> dict[str, object]:
        first = self._first
        main = {} if first is None else {"mainPageUrl": first.seed_url or first.url}
        return {
            "profile": "data-package",
            "wacz_version": _VERSION,
            "title": f"Crawl {first.crawlid}" if first else "Crawl",
            "software": self._crawl.software,
            "created": self._latest.strftime(_TIME),
            **main,
            "resources": resources,
        }


def _folder_beside(file: BinaryIO) -> TemporaryDirectory[str]:
    """Return a new folder next to a file; the usual place for files without a name."""
    name = getattr(file, "name", None)
    if not isinstance(name, str) or not Path(name).is_file():
        return TemporaryDirectory()
    return TemporaryDirectory(dir=Path(name).parent, prefix=f"{Path(name).name}-")


def _listed(page: Delivered) -> dict[str, object]:
    """Return the entry of a page in the list of pages."""
    markup = text_of(page.body[:_MOST_READ], page.encoding)
    title = _TITLE.search(markup)
    return {
        "id": page.id,
        "url": page.response_url,
        "ts": page.timestamp.strftime(_TIME),
        "title": " ".join(unescape(title[1]).split())[:_MOST_TITLE] if title else "",
        "text": scanned(markup)[:_MOST_TEXT],
        "seed": page.depth == 0,
        "depth": page.depth,
    }


def _named(digest: str) -> str:
    return f"sha256:{digest}"

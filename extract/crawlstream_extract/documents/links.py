"""Links of documents, read in a worker process: the job that crawlers name."""

from __future__ import annotations

import time
from collections.abc import Iterable

from crawlstream_extract.documents.kinds import DocumentKind
from crawlstream_extract.documents.office import links_of_office
from crawlstream_extract.hrefs import Hrefs
from crawlstream_extract.pdf import PdfLimits, content_of
from crawlstream_extract.workers.frames import packed, unpack


class DocumentLinksWork:
    """Reads documents in a worker."""

    told = None

    def __init__(self, _: object) -> None:
        pass

    def run(self, value: bytes) -> bytes:
        """Return the links of {kind, URL, body}, why some are missing, and the CPU seconds."""
        kind, url, body = unpack(value)
        began = time.process_time()
        links, is_truncated, error = _read(DocumentKind(kind), url, body)
        return packed([list(links), is_truncated, error, time.process_time() - began])


def _read(kind: DocumentKind, url: str, body: bytes) -> tuple[Iterable[str], bool, str | None]:
    hrefs = Hrefs(url, "utf-8")
    if kind is DocumentKind.OFFICE:
        office = links_of_office(body, hrefs)
        return office.links, office.is_truncated, office.error
    pdf = content_of(body, hrefs, PdfLimits())
    return pdf.links, pdf.is_truncated, pdf.error

"""Measure the CPU time of stages for one page: pages of documentation, and what they say.

The least of many turns counts: other processes on the machine make a turn longer, never shorter.
"""

from __future__ import annotations

import ctypes
import io
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pypdfium2
from lib.harness import Benchmark, Figures, Line
from lib.webs import find_docs
from pypdfium2 import raw
from redis.asyncio import Redis

from crawlstream_extract.hrefs import Hrefs
from crawlstream_extract.language import LanguageModel
from crawlstream_extract.markdown import MarkdownOptions, markdown_of
from crawlstream_extract.markup import beginning
from crawlstream_extract.minhash import Sketches
from crawlstream_extract.pdf import PdfLimits, content_of
from crawlstream_extract.scan import scanned

SIZES = {"10_kb": 10 * 1024, "71_kb": 71 * 1024}
TURNS = 60
PDF_PAGES, LINES = 20, 50
URL = "http://127.0.0.1/3/library/page-17.html"


def _page_of(size: int) -> str:
    """The page of the documentation whose size is nearest."""
    pages = (path for path in Path(find_docs()).rglob("*.html") if path.is_file())
    return min(pages, key=lambda path: abs(path.stat().st_size - size)).read_text()


def _markdown(page: str) -> None:
    markdown_of(beginning(page)[0], Hrefs(URL, "utf-8"), MarkdownOptions())


def _read(body: bytes) -> None:
    content_of(body, Hrefs(URL, "utf-8"), PdfLimits())


def _least_ms(call: Callable[[], object]) -> float:
    spent = []
    for _ in range(TURNS):
        began = time.process_time()
        call()
        spent.append(time.process_time() - began)
    return min(spent) * 1000


def _document(pages: int) -> bytes:
    """Return a PDF with lines of text on each page."""
    made = pypdfium2.PdfDocument.new()
    for _ in range(pages):
        page = made.new_page(600, 800)
        for line in range(LINES):
            text = raw.FPDFPageObj_NewTextObj(made, b"Helvetica", 10)
            words = f"line {line} of a page of a document, with some words".encode("utf-16-le")
            raw.FPDFText_SetText(
                text, (ctypes.c_ushort * (len(words) // 2 + 1)).from_buffer_copy(words + b"\0\0")
            )
            raw.FPDFPageObj_Transform(text, 1, 0, 0, 1, 50, 780 - 12 * line)
            raw.FPDFPage_InsertObject(page, text)
        page.gen_content()
    file = io.BytesIO()
    made.save(file)
    return file.getvalue()


async def measure(_: Redis) -> Figures:
    """Markdown of one page of each size, language and sketch of the larger one, and a PDF."""
    pages = {name: _page_of(size) for name, size in SIZES.items()}
    text = scanned(pages["71_kb"])
    return {
        **{f"markdown_ms_{name}": _least_ms(partial(_markdown, pages[name])) for name in pages},
        "language_ms": _least_ms(partial(LanguageModel().of, text)),
        "document_ms_a_page": _least_ms(partial(_read, _document(PDF_PAGES))) / PDF_PAGES,
        "minhash_ms": _least_ms(partial(Sketches(3, 16).of, text)),
    }


if __name__ == "__main__":
    Benchmark(
        name="stages",
        about="CPU of the stages markdown, language, minhash and document for a page.",
        measure=measure,
        lines={
            "markdown_ms_10_kb": Line(floor=4, goal=1.3, unit="ms"),
            "markdown_ms_71_kb": Line(floor=20, goal=7, unit="ms"),
            "language_ms": Line(floor=4, goal=1.1, unit="ms"),
            "document_ms_a_page": Line(floor=4, goal=1, unit="ms"),
            "minhash_ms": Line(floor=8, goal=2, unit="ms"),
        },
        repetitions=1,
    ).main()

"""Pages of the kinds that crawls meet, and the Markdown that the locked version makes of them.

After a new version of html-to-markdown, ``UPDATE_DOCS=1`` writes its folder: read the difference to
the folder of the version before, and remove that.
"""

from __future__ import annotations

import os
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import trafilatura
from lxml import html

from crawlstream_extract.extract import ExtractRequest, extract
from crawlstream_extract.hrefs import Hrefs
from crawlstream_extract.markdown import MarkdownOptions, markdown_of

CORPUS = Path(__file__).parents[2] / "support" / "extract" / "corpus"
GOLDEN = CORPUS / version("html-to-markdown")
PAGES = sorted(CORPUS.glob("*.html"))
_UNSEEN = "//script|//style|//template|//noscript|//iframe|//head|//rp|//svg|//input|//*[@hidden]"
_WORD = re.compile(r"\w+")


def markdown(page: Path, *, main: bool) -> str:
    """Return Markdown of a page."""
    request = ExtractRequest(
        body=page.read_bytes(),
        encoding="utf-8",
        mime="text/html",
        url=f"http://{page.stem}.example/2026/page",
        formats=["markdown"],
        main=main,
    )
    found = extract(request)
    assert (found.problems, found.truncated) == ((), False)
    text: str = found.formats["markdown"]
    return text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.parametrize("main", [True, False])
def test_markdown_is_that_of_the_version(page: Path, main: bool) -> None:  # noqa: FBT001
    """A new version may make other Markdown of pages, which a person then reviews."""
    golden = GOLDEN / f"{page.stem}{'' if main else '.whole'}.md"
    text = markdown(page, main=main) + "\n"
    if os.environ.get("UPDATE_DOCS"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert golden.read_text() == text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_visible_word_is_lost_of_a_whole_page(page: Path) -> None:
    """Keeps all visible words of a whole page, in the order of another walk."""
    tree: Any = html.fromstring(page.read_bytes(), parser=html.HTMLParser(encoding="utf-8"))
    for element in [*tree.xpath(_UNSEEN), *tree.xpath("//*[contains(@style, 'display: none')]")]:
        element.drop_tree()
    seen = [word for text in tree.itertext() for word in _WORD.findall(text)]
    hrefs = Hrefs("http://x.example/", "utf-8")
    options = MarkdownOptions(main=False, links="none")
    kept = "".join(_WORD.findall(markdown_of(page.read_text(), hrefs, options)[0]))
    assert len(seen) > 20
    at = 0
    for word in seen:
        found = kept.find(word, at)
        assert found >= 0, word
        at = found + len(word)


@pytest.mark.parametrize("name", ["news", "reference", "wiki"])
def test_the_main_content_has_what_another_engine_finds(name: str) -> None:
    """Pages with one article, for which trafilatura is made."""
    page = CORPUS / f"{name}.html"
    other = trafilatura.extract(page.read_text(), include_comments=False) or ""
    ours = set(_WORD.findall(markdown(page, main=True)))
    words = _WORD.findall(other)
    assert len(words) > 20
    assert sum(word in ours for word in words) >= 0.95 * len(words)

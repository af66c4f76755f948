"""The text of a page by another reader: a tokenizer of Python in place of libxml2 and XPath."""

from __future__ import annotations

import re
from hashlib import blake2b
from html.parser import HTMLParser
from pathlib import Path

import pytest
from scrapy.http import HtmlResponse

from crawling.page.page_traits import read_traits
from crawling.page.parsed_page import ParsedPage
from crawling.quality.page_text import MOST_CHARACTERS

MANUAL = sorted({path.resolve() for path in Path("/usr/share/doc").glob("python3*/html")})
"""Real HTML, where a package of the system has installed it."""
EXAMPLES = [
    "<p>one<p>two<br>three<b>four</b>five",
    "<title>a &amp; b</title><textarea> c\td </textarea><option>e<option>e",
    "<script>x<b>1</b></script>1<style>4</style>2<noscript>3</noscript>",
    "<!-- 1 --><p>a<!-- 2 -->b<![CDATA[c]]>",
    "<ul><li>7<li>17<li>7.5<li>77</ul>",
    f"<p>{'1 10 ' * 20} 17 1<p>{'1 10 71 ' * 20}",
    "&lt;p&gt; &#9731; &eacute;\xa0x \u2003 y",
    "<table><tr><td>1<td>2<tr><td>3</table>4",
]


class SlowReader(HTMLParser):
    """Collects the text between tags, outside of scripts and styles."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.nodes: list[str] = [""]
        self._is_hidden = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Begin a node."""
        self.nodes.append("")
        self._is_hidden = tag in {"script", "style"}

    def handle_endtag(self, tag: str) -> None:
        """Begin a node."""
        self.nodes.append("")
        self._is_hidden = False

    def handle_comment(self, data: str) -> None:
        """Begin a node."""
        self.nodes.append("")

    def handle_data(self, data: str) -> None:
        """Add to the node."""
        if not self._is_hidden:
            self.nodes[-1] += data


def _nodes(markup: str) -> list[str]:
    reader = SlowReader()
    reader.feed(markup)
    reader.close()
    return reader.nodes


def _signature(markup: str, url: str) -> str | None:
    numbers = set(re.findall("[0-9]+", re.sub("%..", " ", re.sub("^[^/]*//[^/]*", "", url))))
    nodes = set()
    for node in _nodes(markup):
        masked = re.sub("[0-9]+", lambda found: "#" if found[0] in numbers else found[0], node)
        nodes.add(re.sub("[ \t\n\r\f]", "", masked).encode())
    packed = b"\x01".join(sorted(nodes - {b""}))
    return f"t1:{blake2b(packed, digest_size=8).hexdigest()}" if packed else None


def _found(markup: str, url: str) -> str | None:
    response = HtmlResponse(url, body=markup.encode(), encoding="utf-8")
    return read_traits(response, ParsedPage(response)).text_signature


@pytest.mark.parametrize("markup", EXAMPLES)
@pytest.mark.parametrize("url", ["http://a.example/", "http://a.example/7/1?b=17"])
def test_examples_have_the_text_of_a_slow_reader(markup: str, url: str) -> None:
    """Borders of nodes, references, hidden text and masks are where the other reader has them."""
    assert _found(markup, url) == _signature(markup, url)


def test_real_pages_have_the_text_of_a_slow_reader() -> None:
    """A sample of Python's manual, if it is there, without pages beyond the limit of a text."""
    pages = [page for root in MANUAL for page in sorted(root.rglob("*.html"))][::17]
    different = []
    for page in pages:
        markup = page.read_text(encoding="utf-8")
        url = f"http://a.example/3/{page.name}"
        is_short = len("|".join(set(_nodes(markup)))) < MOST_CHARACTERS
        if is_short and _found(markup, url) != _signature(markup, url):
            different.append(page.name)
    assert not different

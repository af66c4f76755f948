"""Signatures cost a page nothing while they are off, and reading its head costs little.

Bytecodes are counted for what is off, since no clock is that precise. Heads are searched by C, so
their CPU time is compared with that of finding the links of the same page. Both alternate, and the
least of many rounds counts: whatever else the machine does slows down both.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from scrapy.http import HtmlResponse

from crawling.egress.signatures import Signatures
from crawling.links.extract import links_of
from crawling.page.directives import directives_of
from crawling.page.head import head_of
from crawling.page.rights import rights_of
from crawlstream.model.crawl import Profile
from crawlstream.signing.keys import new_key
from crawlstream.signing.signer import Signer, Terms
from crawlstream_chaos.scripted_site import page, serving
from support.crawler.visitor import visiting

OF_SIGNATURES = ("/crawling/egress/signatures.py", "/crawlstream/signing/")


class Bytecodes:
    """Count of those that ran in some modules."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        """Follow a call of one of these modules."""
        if event == "call" and not any(part in frame.f_code.co_filename for part in OF_SIGNATURES):
            return None
        frame.f_trace_opcodes = True
        self.count += event == "opcode"
        return self


@contextmanager
def counting() -> Iterator[Bytecodes]:
    """Count for the length of a block."""
    bytecodes, before = Bytecodes(), sys.gettrace()
    sys.settrace(bytecodes)
    try:
        yield bytecodes
    finally:
        sys.settrace(before)


async def of_a_fetch(url: str, signatures: Signatures | None) -> int:
    """Bytecodes of signatures for one page, on a kept connection."""
    with visiting(signatures=signatures) as visitor:
        await visitor.fetch(url)
        with counting() as bytecodes:
            await visitor.fetch(url)
    return bytecodes.count


async def test_signatures_cost_nothing_while_they_are_off(tmp_path: Path) -> None:
    """Not one bytecode of theirs runs; with a key, some hundreds."""
    key = new_key(tmp_path / "key.pem")
    signatures = Signatures(Signer(key, Terms(agent="https://bot.example")), "link")
    with serving({"/": page()}) as site:
        assert await of_a_fetch(site.url("/"), None) == 0
        assert 100 < await of_a_fetch(site.url("/"), signatures) < 1000


MOST_OF_LINKS = {1: 0.14, 96: 0.03}
"""CPU time of directives and rights ÷ of finding links, by KB of a page. On these pages finding
links takes a seventh, and a third, of a crawler's time, so these are 2 % and 1 % of a page."""
ROUNDS = 25
HEAD = (
    "<!doctype html><html><head><meta charset=utf-8><title>Page</title><link rel=icon href=/i>"
    "{}</head>\n<body>"
)
KINDS = {"none": "", "a description": "<meta name=description content='All &#39;of&#39; it'>"}


def written(size_kb: int, more: str) -> bytes:
    """Return a page with 20 links in its first KB, and two in each further one."""
    links = "".join(f"<a href='/{number}'>next</a>" for number in range(20))
    fill = "".join(f"<p>{'It goes on. ' * 38}<a href='/p/{n}'>next</a>" for n in range(2 * size_kb))
    return f"{HEAD.format(more)}{links}{fill}".encode()[: size_kb * 1024]


def round_s(work: Callable[[], object], times: int) -> float:
    """CPU seconds of some work."""
    began = time.process_time()
    for _ in range(times):
        work()
    return time.process_time() - began


@pytest.mark.parametrize("more", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("size_kb", MOST_OF_LINKS)
def test_directives_and_rights_cost_little_of_a_page(size_kb: int, more: str) -> None:
    """At most 2 % at 1 KB and 1 % at 96 KB, where a page has none."""
    headers = {"Content-Type": "text/html; charset=utf-8"}
    body = written(size_kb, more)
    response = HtmlResponse("http://a.example/", body=body, headers=headers)
    times = max(1, 200 // size_kb)

    def find() -> None:
        links_of(response.replace(body=body), Profile())

    def read() -> None:
        head = head_of(response)
        directives_of(response, "examplebot", head)
        rights_of(response, head, None, None)

    assert links_of(response, Profile())[0]
    rounds = [(round_s(read, 4 * times) / 4, round_s(find, times)) for _ in range(ROUNDS)]
    spent, on_links = map(min, zip(*rounds, strict=True))
    assert spent / on_links < MOST_OF_LINKS[size_kb]

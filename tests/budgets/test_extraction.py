"""The budget of extraction: all formats of any page fit into half of a worker's time and memory.

Each page is extracted by a process of its own, forked from one that has all modules loaded.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from operator import itemgetter

from crawlstream_extract.work import LIMITS

CPU_S = LIMITS.timeout_s / 2
MEMORY_MIB = LIMITS.memory_mb - 100
"""Python and the libraries take the rest."""

log = logging.getLogger(__name__)

PROGRAM = """
import json, os, resource, sys, time
from crawlstream_extract.extract import FORMATS, ExtractRequest, extract
from crawlstream_extract.markup import LONGEST_MARKUP
from support.hostile.markup import shapes

COSTLY = (
    "ampersands", "no numbers of characters", "cells", "deep texts", "texts", "links", "deep links",
    "open a", "open li", "<p> 250 deep", "<a> 2040 deep", "reopened formatting", "nested lists",
    "nested tables", "attributes ' a{}=1'", "500 attributes each", "a script of comments", "NUL",
)

def asked(body, encoding="utf-8"):
    return ExtractRequest(
        body=body, encoding=encoding, mime="text/html", url="http://x.example/a", formats=FORMATS
    )

def pages():
    yield "10 MiB of text", asked(b"word " * (2 << 20))
    yield "wrong encoding", asked("<p>\\u20ac".encode("utf-16") * 100_000, "shift_jis")
    yield "any bytes", asked(bytes(range(256)) * 4096, "utf-8")
    wide = b"<table>" + b"<tr>" + b"<td colspan=1000 rowspan=65534>x" * 30_000
    yield "cells that span", asked(wide)
    yield "wide cells", asked(b"<table><tr><td>" + b"x" * 500_000 + b"<tr><td>y" * 50_000)
    yield "quotations", asked(b"<blockquote>" * 240 + b"<p>x</p>" * 100_000)
    base = b"<base href='http://x/" + b"a" * 2000 + b"/'>"
    yield "long base", asked(base + b"<a href=b>x</a>" * 60_000)
    for name in COSTLY:
        yield name, asked(shapes()[name](LONGEST_MARKUP).encode())

extract(asked(b"<p>a"))
for name, request in pages():
    read, write = os.pipe()
    child = os.fork()
    if not child:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.process_time()
        found = extract(request)
        cpu_s = time.process_time() - began
        more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        mib = more / (1 << 20 if sys.platform == "darwin" else 1 << 10)
        longest = max(len(found.formats[each] or "") for each in ("markdown", "text", "html"))
        os.write(write, json.dumps([name, cpu_s, mib, longest, found.problems]).encode())
        os._exit(0)
    os.close(write)
    print(os.read(read, 4096).decode() or json.dumps([name, 99, 0, 0, ["died"]]), flush=True)
    os.close(read)
    os.waitpid(child, 0)
"""


def test_no_page_costs_more_than_its_budget() -> None:
    """None fails, and no text is longer than asked for."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    log.info("\n".join(map(str, sorted(found, key=itemgetter(1)))))
    assert len(found) > 20
    expensive = [each for each in found if each[1] > CPU_S or each[2] > MEMORY_MIB]
    assert not expensive
    assert not [each for each in found if each[3] > 200_000 or each[4]]

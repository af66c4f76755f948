"""JSON that a client has written is read by ``wire.jsontext``, which keeps every digit."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from unit.project.test_architecture import SOURCES

OURS = "what the cluster has written of itself: texts, and numbers that fit 64 bits"
BY_NAME = "texts are taken from it; the record is passed on as it is"
EXACT_BESIDE = "a record with a longer number is read again, exactly"

ROUNDING = {
    ("wire/jsontext.py", "loads"): EXACT_BESIDE,
    ("wire/strict.py", "_parse"): EXACT_BESIDE,
    ("wire/delivered.py", "_parsed"): EXACT_BESIDE,
    ("wire/requests.py", "_leniently"): BY_NAME,
    ("topics/replies.py", "_field"): BY_NAME,
    ("v2/crawls.py", "_steer"): BY_NAME,
    ("v2/schedules.py", "_ask"): BY_NAME,
    ("wire/schemas.py", "bundled"): OURS,
    ("wire/events.py", "decode_delivery"): OURS,
    ("wire/events.py", "decode_page_failed"): OURS,
    ("wire/events.py", "decode_crawl_event"): OURS,
    ("wire/events.py", "decode_notable"): OURS,
    ("wire/replies.py", "decode_page"): OURS,
    ("dashboard/forms.py", "_told"): "of the answer to a form, a screen shows words and counts",
    ("common/proxy_check.py", "check_all"): "lines of a process of ours",
    ("signing/checks.py", "directory"): "of keys that an agent publishes, texts alone are read",
    ("machine/logs.py", "of"): "lines of our logs, for people",
    ("crawlstream_chaos/recorder.py", "read"): "the access log of the demo's site",
    ("demo/access_log.py", "read_visits"): "the access log of the demo's site",
    ("render/cdp.py", "_parsed"): "the browser's words: its numbers are JavaScript's",
}
"""Functions that may read by orjson, by the end of the path and the name, and why."""


def _places(path: Path) -> Iterator[tuple[str, str]]:
    """The functions that name ``orjson.loads``, called or handed on; "": outside of any."""
    tree = ast.parse(path.read_text())
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for node in filter(_is_rounding, ast.walk(tree)):
        within = [one for one in functions if node in ast.walk(one)]
        yield "/".join(path.parts[-2:]), within[-1].name if within else ""


def _is_rounding(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "orjson"
    if isinstance(node, ast.Import):
        return any(name.name == "orjson" and name.asname for name in node.names)
    return isinstance(node, ast.Attribute) and ast.unparse(node) == "orjson.loads"


def test_no_other_function_reads_by_orjson() -> None:
    """It rounds integers beyond 64 bits: others use ``jsontext.loads``, or say above why not."""
    found = [place for path in SOURCES if "orjson" in path.read_text() for place in _places(path)]
    assert sorted(set(found)) == sorted(ROUNDING)

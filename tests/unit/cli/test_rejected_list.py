"""Output of ``rejected list`` on terminals of any width."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from crawlstream.model.event import Rejection
from crawlstream_cli.rejected import Item, _show_table

WHY = ["$.priority: must be integer, not a string", "$.maxdepth: must be from 0 to 300 (got -3)"]
WORDS = "priority: must be integer, not a string; maxdepth: must be from 0 to 300 (got -3)"


@pytest.mark.parametrize("width", [56, 60, 80, 120, 200])
def test_reasons_are_wrapped_and_never_cut(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wraps reasons within the terminal, and breaks no word or id."""
    monkeypatch.setenv("COLUMNS", str(width))
    now_ms = int(time.time() * 1000) - 3000
    item = Item("in-0-6", Rejection(reason="bad_request", errors=WHY, raw=b""), now_ms, 0)
    _show_table(Counter(bad_request=1200, not_json=1), [item])
    *shown, counts = capsys.readouterr().out.splitlines()
    assert max(len(line.rstrip()) for line in [*shown, counts]) <= width
    told = [word for line in shown for word in line.split()]
    assert "in-0-6" in told
    assert [word for word in told if word in set(WORDS.split())] == WORDS.split()
    assert counts.split()[:3] == ["1,201", "rejected", "records:"]

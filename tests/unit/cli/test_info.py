"""Output of ``info`` for the reply about one crawl."""

from __future__ import annotations

from typing import Any

from crawlstream_cli.info import rows_of

REPLY: dict[str, Any] = {
    "appid": "myapp",
    "crawlid": "docs",
    "spiderid": "shop",
    "state": "running",
    "run": 1,
    "admitted": 400,
    "pending": 98,
    "in_flight": 2,
    "held_back": {},
    "done": 280,
    "redirected": 8,
    "failed": {"dns": 12},
    "filtered": {"duplicate": 5581},
    "started": 1000,
    "last_activity": 1597,
    "domains": {
        f"{n}.example": {"total": n, "high_priority": 70, "low_priority": 50} for n in range(1, 8)
    },
}


def shown(reply: dict[str, Any], **how: Any) -> dict[str, str]:
    """The rows by their names; the first of those with one name."""
    rows: dict[str, str] = {}
    for name, value in rows_of(reply, now=1600, **how):
        rows.setdefault(name, value)
    return rows


def test_a_crawl_is_told_in_words() -> None:
    """Progress as a bar, the pace, how long the rest takes, and the fullest domains."""
    rows = shown(REPLY)
    assert rows["crawl"] == "docs of application myapp, spider shop, run 1"
    assert rows["progress"] == f"{'█' * 22}{'░' * 8} 75% of 400 admitted pages"
    assert rows["pages"] == "280 done, 8 redirected, 12 failed (dns 12)"
    assert rows["waiting"] == "98 pages, 2 in flight"
    assert rows["pace"] == "0.50 pages/s, about 3 min left"
    assert rows["started"].endswith("(10 min ago)")
    assert rows["active"].endswith("(3 s ago)")
    assert rows["queued at"] == "7.example: 7 pages"
    assert rows[""] == "and 2 domains more"
    assert "held back" not in rows


def test_a_crawl_that_nobody_crawls_says_so() -> None:
    """Shows that no crawler runs in place of ``running``."""
    badge = "waiting: no crawler of shop"
    rows = shown({**REPLY, "done": 0, "redirected": 0, "failed": {}}, badge=badge)
    assert rows["state"] == badge
    assert rows["pace"] == "no page yet"


def test_a_crawl_that_has_ended_has_no_rest() -> None:
    """Its pace is that of its life."""
    rows = shown({**REPLY, "state": "finished", "last_activity": 1300, "pending": 0})
    assert rows["pace"] == "1.00 pages/s"

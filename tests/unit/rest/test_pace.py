"""How long a crawl takes at least, by the rules of its sites."""

from __future__ import annotations

from typing import Any

from crawlstream.model.request import CrawlRequest
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from rest_service.topics.pace import pace_of


def test_the_slowest_site_tells_the_pace() -> None:
    """The least time is that of the site with most to wait for; a blocked one never ends."""
    slow = ThrottleRule(hits=10, window_s=60)
    table = ThrottleTable(
        default=ThrottleRule(hits=5, window_s=1),
        rules={"127.0.0.2": slow},
        blacklist=frozenset({"127.0.0.3"}),
    )

    def told(*numbers: int, **more: Any) -> dict[str, Any]:
        name: dict[str, Any] = {"appid": "app", "crawlid": "x", **more}
        urls = [f"http://127.0.0.{number}/" for number in numbers]
        return pace_of([CrawlRequest(url=url, **name) for url in urls], table)

    assert (told(1, 1, 2)["pages"], told(1, 1, 2)["seconds"]) == (3, 6)
    assert told(1, 1, 2)["sites"][0] == {
        "site": "127.0.0.2",
        "rule": str(slow),
        "seconds_per_page": 6.0,
    }
    assert told(2, maxdepth=3, max_pages=100)["seconds"] == 600
    assert told(2, maxdepth=3)["seconds"] is None
    assert told(1, 3)["seconds"] is None
    assert told(1, 3)["sites"][0]["seconds_per_page"] is None
    assert pace_of([], None) == {"pages": 0, "seconds": None, "sites": []}

"""Text signatures and canonical URLs of a whole crawl, by the fetch lane and by the engine."""

from __future__ import annotations

from typing import Any

import pytest

from crawlstream_chaos.scripted_site import HTML, Answer, CrawlerSite, page
from support.crawler.cluster import CrawlerCluster

pytest_plugins = ["support.crawler.fixtures"]

_FIELDS = ("text_signature", "canonical")


def _list(*items: str) -> Answer:
    head = b"<link rel=canonical href=/list><script>var now = 1</script>"
    return Answer(head + b"".join(f"<li>{item}".encode() for item in items), headers=HTML)


@pytest.mark.parametrize(("way", "most"), [("lane", "watch"), ("engine", "watch"), ("lane", "off")])
async def test_equal_pages_are_found_in_results(
    cluster: CrawlerCluster, site: CrawlerSite, way: str, most: str
) -> None:
    """Names equal pages in results if a crawl watches; the operator's highest mode is a limit."""
    site.pages |= {
        "/": page("/list?sort=price&page=1", "/list?sort=name&page=2", "/other"),
        "/list?sort=price&page=1": _list("boat", "rope", "page 1"),
        "/list?sort=name&page=2": _list("rope", "boat", "page 2"),
        "/other": _list("boat"),
    }
    seed = {"url": site.url("/"), "maxdepth": 1}
    with cluster.worker(CRAWLSTREAM_FETCH=way, CRAWLSTREAM_GUARD_MOST=most):
        await cluster.end_of(await cluster.ask({**seed, "guard": "watch"}), timeout_s=60)
        await cluster.end_of(await cluster.ask({**seed, "crawlid": "off"}), timeout_s=60)
    found: dict[str, dict[str, list[Any]]] = {"crawl": {}, "off": {}}
    for each in cluster.results():
        place = each["url"].partition(str(site.port))[2]
        found[each["crawlid"]][place] = [each.get(name) for name in _FIELDS]
    watched, others = found["crawl"], list(found["off"].values())
    assert others == [[None, None]] * 4
    if most == "off":
        assert list(watched.values()) == others
        return
    one, other = watched["/list?sort=price&page=1"], watched["/list?sort=name&page=2"]
    assert one == other
    assert one[1] == site.url("/list")
    assert len({signature for signature, _ in watched.values()}) == 3

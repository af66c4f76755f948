"""A web whose pages lead from partition to partition."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page

WIDE_OPEN = {
    "QUEUE_HITS": "100000",
    "QUEUE_WINDOW": "1",
    "QUEUE_MODERATED": "false",
    "CRAWLSTREAM_FINISH_GRACE": "0.5",
}


def spread(
    site: CrawlerSite, hosts: Sequence[str], *, pages: int, after_s: float = 0.05
) -> list[str]:
    """Give each host a chain of pages, each of which leads on, there and at another host.

    All URLs; the first of each host, which come first, lead to all others.
    """
    paths = [f"/{n}" for n in range(pages)]
    for n, host in enumerate(hosts):
        for path, following in pairwise(paths):
            others = [hosts[(n + step) % len(hosts)] for step in (0, 4)]
            answer = page(*(site.url(following, other) for other in others))
            site.pages[host + path] = Answer(answer.body, after_s=after_s)
        site.pages[host + paths[-1]] = Answer(b"<p>")
    return [site.url(path, host) for path in paths for host in hosts]

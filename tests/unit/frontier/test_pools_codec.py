"""The proxy pools as they stand in Redis."""

from __future__ import annotations

from crawlstream.egress.parse import node_of
from crawlstream.model.egress.pools import UNREADABLE, PoolTable
from crawlstream_frontier.codec.pools import pack_pools, unpack_pools


def test_a_table_comes_back_as_it_went_in() -> None:
    """Every field that can differ from its default; passwords as they were written."""
    text = """
default: de
groups: {east: direct}
domains: {shop.test: fr}
pools:
  fr: {}
  de:
    spread: 1
    per: crawl
    rest: 2.5
    dns: local
    tls: [legacy]
    fallback: [fr, direct]
    apps: [shop]
    disabled: true
    proxies:
    - https://${U}:${P}@gw.test:8443
    - {url: "socks5://u-{session}:s@[::1]:1080", sessions: 2, weight: 2.5, labels: [x, y]}
    - {url: "http://h.test:1", disabled: true}
"""
    table = node_of("/proxies").parse(text.encode(), 3, 7)
    again = unpack_pools(pack_pools(table))
    assert again == table
    assert again.pools["de"].proxies[1].password.reveal() == "s"
    assert hash(again.pools["de"].proxies[1]) == hash(table.pools["de"].proxies[1])
    marker = PoolTable(default=UNREADABLE)
    assert unpack_pools(pack_pools(marker)) == marker

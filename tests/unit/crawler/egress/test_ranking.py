"""Ranking of a site's proxies: the same everywhere, by weight, and hardly ever others."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from crawling.egress.ranking import Ranking
from crawlstream.egress.url import read_line
from crawlstream.model.egress.pools import Pool, Proxy
from crawlstream_frontier.egress.proxy_ranking import ranked

PROXIES = [read_line(f"http://h{number}.test:80") for number in range(20)]
SITES = [f"site{number}.test" for number in range(4000)]


def firsts(proxies: list[Proxy]) -> dict[str, str]:
    """The best proxy of each site."""
    return {site: ranked(proxies, site)[0].id for site in SITES}


def test_a_proxy_that_leaves_moves_its_own_sites_only() -> None:
    """All others keep theirs; so it is with one that comes."""
    before, after = firsts(PROXIES), firsts(PROXIES[1:])
    moved = {site for site in SITES if before[site] != after[site]}
    assert moved == {site for site in SITES if before[site] == PROXIES[0].id}
    assert len(moved) == pytest.approx(len(SITES) / 20, rel=0.3)


def test_proxies_have_their_share_of_the_sites_by_weight() -> None:
    """Three times the weight, three times the sites."""
    heavy = [replace(PROXIES[0], weight=3), *PROXIES[1:]]
    counts = Counter(firsts(heavy).values())
    assert counts[PROXIES[0].id] == pytest.approx(len(SITES) * 3 / 22, rel=0.15)
    assert min(counts.values()) > len(SITES) / 22 / 2


def test_what_is_remembered_is_what_would_be_worked_out() -> None:
    """Remembers the same as it would compute, in any order of the table, for each pool."""
    site = "a.test"
    expected = ranked(PROXIES, site)[:16]
    disabled = replace(PROXIES[0], disabled=True)
    for proxies in (PROXIES, PROXIES[::-1]):
        ranking = Ranking()
        for _ in range(2):
            assert ranking.best(Pool(name="de", proxies=tuple(proxies)), site) == expected
        fr = Pool(name="fr", proxies=(disabled, *PROXIES[1:3]))
        assert ranking.best(fr, site) == ranked(PROXIES[1:3], site)

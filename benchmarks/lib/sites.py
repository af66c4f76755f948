"""Links as sites have them: of a few shapes a site, of English words, each with the page it is on.

The words are those of the help texts that Python brings along, as often as they stand there. Some
sites are made; all others have the links of one of them, which only their fingerprints tell apart:
the frontier looks at nothing else, and no two of these sites share a chunk.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from functools import cache
from pydoc_data.topics import topics

from lib.load import domain_name

from crawlstream.model.effects import Links
from crawlstream.wire.stored import LinkEncoder

MADE_SITES, LINKS_A_SITE, LINKS_A_PAGE = 20, 2_000, 20
_HELP: Mapping[str, str] = topics
_WORDS = re.findall(r"\b[a-z]{3,12}\b", " ".join(_HELP.values()))

Shape = Callable[[random.Random], str]


def _slug(chance: random.Random, between: str = "-") -> str:
    return between.join(chance.choices(_WORDS, k=chance.randint(2, 7)))


def _day(chance: random.Random) -> str:
    return f"20{chance.randint(5, 26):02}/{chance.randint(1, 12):02}/{chance.randint(1, 28):02}"


_SHAPES: tuple[Shape, ...] = (
    lambda r: f"/{_day(r)}/{_slug(r)}/",
    lambda r: f"/{r.choice(_WORDS)}/{_slug(r)}-{r.randrange(10**6)}.html",
    lambda r: f"/products/{r.randrange(10**7)}/{_slug(r)}?variant={r.randrange(10**9)}",
    lambda r: f"/forum/viewtopic.php?f={r.randrange(50)}&t={r.randrange(10**6)}",
    lambda r: f"/wiki/{_slug(r, '_').title()}",
    lambda r: f"/tag/{r.choice(_WORDS)}/page/{r.randrange(500)}",
)


@cache
def _entries(site: int) -> tuple[bytes, ...]:
    """The links of a made site as they are stored, without their profiles."""
    chance = random.Random(site)
    origin = f"https://www.{domain_name(site)}"
    shapes = chance.sample(_SHAPES, 3)
    paths = [f"{origin}{chance.choice(shapes)(chance)}" for _ in range(LINKS_A_SITE)]
    pages = paths[::LINKS_A_PAGE]
    return tuple(
        LinkEncoder(1 + at % 5, pages[at // LINKS_A_PAGE].encode()).encode(url)
        for at, url in enumerate(paths)
    )


def site_links(number: int, first: int, count: int) -> Links:
    """New links into a site: as many as wanted, from number ``first`` of its own on."""
    entries = _entries(number % MADE_SITES)
    return Links(
        domain=domain_name(number),
        priority=50,
        entries=[entries[at % LINKS_A_SITE] for at in range(first, first + count)],
        fingerprints=[str(random.getrandbits(64) - 2**63) for _ in range(count)],
    )


def mean_size() -> float:
    """Characters of a URL."""
    chance = random.Random(0)
    sizes = [len(shape(chance)) for shape in _SHAPES for _ in range(LINKS_A_SITE)]
    return sum(sizes) / len(sizes) + len(f"https://www.{domain_name(0)}")

"""Bugs on purpose in the crawler: the stories of some pair of features turn red by each."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

import crawling
from crawlstream_chaos.processes import RunningServer
from interplay.ground import Ground
from interplay.pairs import all_casts
from interplay.playing import play_all, started


class Bug(NamedTuple):
    """Bugs: a text that occurs once in a module, its replacement, and the test that fails."""

    module: str
    """A file of the package ``crawling``."""
    right: str
    wrong: str
    cast: Sequence[str]
    """The features that meet in the story."""


BUGS = {
    "a redirect of a seed is a link like any other": Bug(
        module="response/redirects.py",
        right="was_here or entry.salt is not None or entry.origin is not None",
        wrong="was_here or entry.salt is not None",
        cast=("moved seed", "schedule"),
    ),
    "a page that is handed back stays with the spider that hands it": Bug(
        module="links/children.py",
        right="if spiderid is None or (self._spider and spiderid == self._spider.name):",
        wrong="if spiderid is None or spiderid == self._page.lease.crawl.spiderid:",
        cast=("hand-over",),
    ),
}


@pytest.fixture(params=list(BUGS.values()), ids=list(BUGS))
def bug(request: pytest.FixtureRequest) -> Bug:
    """A planted bug."""
    planted: Bug = request.param
    return planted


@pytest.fixture
def place(
    bug: Bug, kafka_server: RunningServer, zookeeper_server: RunningServer, tmp_path: Path
) -> Iterator[Ground]:
    """A cluster whose crawlers have the bug."""
    package = shutil.copytree(Path(crawling.__file__).parent, tmp_path / "code" / "crawling")
    text = (package / bug.module).read_text()
    assert text.count(bug.right) == 1, f"where it is planted has changed: {bug.right}"
    (package / bug.module).write_text(text.replace(bug.right, bug.wrong))
    with started(kafka_server, zookeeper_server, tmp_path, code=[package.parent]) as place:
        yield place


async def test_a_story_finds_the_bug(bug: Bug, place: Ground) -> None:
    """A pair that holds without the bug breaks a law with it."""
    casts = [cast for cast in all_casts() if tuple(each.name for each in cast) == bug.cast]
    told = await play_all(place, casts)
    assert told, f"{bug.cast} did not notice"
    assert "never delivered" in told[0] or "parsed it" in told[0], told

"""Pages that waited in vain, and are fed again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence

from crawlstream_chaos.facts.facts import TopicRecord
from crawlstream_chaos.strikes.extra_processes import is_up
from crawlstream_chaos.witness import ENDINGS
from interplay.story import RESULTS, Feature, Story
from interplay.truth import Leaf
from support.waiting import wait_until

REASON = "no_worker"


class Replay(Feature):
    """Has two pages for a spider without a crawler; they are replayed when there is one."""

    name = "replay"
    about = "/a leads to two pages of a spider that is not running; their dead letters are replayed"
    rank = 40

    def arrange(self, story: Story) -> None:
        """Have a page link to one of its own host and to one of a foreign host."""
        story.pages_spider = "givers"
        late = [story.url(f"/late/{_late(story)}", host) for host in (story.host, story.guest)]
        story.web |= {url: Leaf(fails=REASON) for url in late}
        links = story.web[story.url("/a")].links
        story.web[story.url("/a")].links = lambda number: [*links(number), *late]

    async def finish(self, story: Story) -> None:
        """Replay all its dead letters, as a person does, once a crawler runs their spider."""
        await wait_until(lambda: len(_letters(story)) >= _failures(story).total())
        names = [letter.key for letter in _letters(story) if letter.key]
        with story.ground.another_crawler(_late(story), LATE=_late(story)) as crawler:
            await wait_until(lambda: is_up(crawler), every_s=0.2)
            story.note(f"rejected replay {' '.join(names)}")
            replayed = await asyncio.to_thread(
                story.ground.command, "rejected", "replay", *names, "--json"
            )
            assert replayed.returncode == 0, replayed.stderr
            await wait_until(lambda: _done(story) >= len(names))

    def expect(self, story: Story) -> Sequence[str]:
        """Return the failures without a dead letter, and those whose page did not come."""
        return list(_wrong(story))


def _late(story: Story) -> str:
    return f"late-{story.number}"


def _failures(story: Story) -> Counter[str]:
    """Return how often each page must fail for want of a worker, by the model."""
    failed = Counter[str]()
    for number, expected in enumerate(story.expected()):
        if number or story.endings == "crawl_finished":
            failed += Counter(url for url, why in expected.failed.elements() if why == REASON)
    return failed


def _letters(story: Story) -> Sequence[TopicRecord]:
    """Return its dead letters, repetitions left out."""
    return list({r.key: r for r in story.all_records("rejected")}.values())


def _of_late(story: Story, topic: str) -> Sequence[TopicRecord]:
    """Return what has come of the crawl of the other spider."""
    found = story.all_records(topic)
    return [r for r in found if r.value.get("spiderid") == _late(story)]


def _done(story: Story) -> int:
    """Return how many pages its runs have brought, once they have ended."""
    endings = {r.key: r for r in _of_late(story, "events") if r.value["event"] in ENDINGS}
    pages = {r.key for r in _of_late(story, RESULTS)}
    done: int = sum(r.value["counters"]["done"] for r in endings.values())
    return min(len(pages), done)


def _wrong(story: Story) -> Iterator[str]:
    wanted = _failures(story)
    letters = Counter(letter.value["url"] for letter in _letters(story))
    if letters != wanted or not letters:
        yield f"dead letters of {dict(letters)} instead of {dict(wanted)}"
    pages = {r.value["id"]: r.value for r in _of_late(story, RESULTS)}
    came = Counter(page["url"] for page in pages.values())
    if came != wanted:
        yield f"replayed, {dict(came)} came instead of {dict(wanted)}"
    for page in pages.values():
        if (page["crawlid"], page["depth"]) != (story.crawlid, 0):
            yield f"{page['url']} came in {page['crawlid']} at depth {page['depth']}"

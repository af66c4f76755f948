"""A crawl that promotes pages by links."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from interplay.features.steps.rule import narrow
from interplay.story import Feature, Story
from interplay.truth import Leaf


class Score(Feature):
    """Links three times to the last page of a slow host, while it waits."""

    name = "score"
    about = "the sixth page of a slow host has three links: it comes sooner, and still only once"
    rank = 20

    def arrange(self, story: Story) -> None:
        """Ask for it, and add the pages of the host, and the links."""
        story.request["score"] = "inlinks"
        slow = [story.url(f"/slow-{number}", story.guest) for number in range(6)]
        story.web |= {url: Leaf() for url in slow}
        root = story.web[story.root]
        links = root.links
        root.links = lambda number: [*slow, *links(number)]
        for source in (story.url("/a"), story.url("/b")):
            page = story.web[source]
            page.links = partial(_with, slow[-1], page.links)

    async def prepare(self, story: Story) -> None:
        """Make the host slow."""
        await narrow(story, story.guest)

    def expect(self, story: Story) -> Sequence[str]:
        """Without other features, the page is promoted: it is not the last one of its host."""
        if len(story.features) > 1:
            return []
        promoted = story.ended()[0].value["counters"]["done_by_status"].get("promoted", 0)
        order = [visit.path for visit in story.visits if visit.host == story.guest]
        return [] if promoted and order[-1] != "/slow-5" else [f"{promoted} promoted: {order}"]


def _with(url: str, links: Callable[[int], Sequence[str]], number: int) -> Sequence[str]:
    """Return the links of a page in the run of this number, and one more."""
    return [*links(number), url]

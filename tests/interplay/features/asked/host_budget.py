"""A crawl with a host budget."""

from __future__ import annotations

from collections.abc import Sequence

from interplay.features.steps.rule import narrow
from interplay.story import Feature, Story
from interplay.truth import Leaf


class HostBudget(Feature):
    """Gives a slow host two pages for the domain of the seed, which links to five of it."""

    name = "host_budget"
    about = "two of the five pages of a slow host wait in their turn, the others lower; all come"
    rank = 20

    def arrange(self, story: Story) -> None:
        """Ask for it, and add the pages of the host."""
        story.request["host_budget"] = [1, 1]
        slow = [story.url(f"/slow-{number}", story.guest) for number in range(5)]
        story.web |= {url: Leaf() for url in slow}
        root = story.web[story.root]
        links = root.links
        root.links = lambda number: [*slow, *links(number)]

    async def prepare(self, story: Story) -> None:
        """Make the host slow."""
        await narrow(story, story.guest)

    def expect(self, story: Story) -> Sequence[str]:
        """Without other features, its pages come in their order."""
        if len(story.features) > 1:
            return []
        order = [visit.path for visit in story.visits if visit.host == story.guest]
        return [] if order[:5] == [f"/slow-{number}" for number in range(5)] else [f"{order}"]

"""A seed that redirects."""

from __future__ import annotations

from interplay.story import Feature, Story
from interplay.truth import Leaf


class MovedSeed(Feature):
    """Feeds a URL that leads to the root page by two redirects."""

    name = "moved seed"
    about = "the seed redirects twice before it comes to the root page"
    rank = 60

    def arrange(self, story: Story) -> None:
        """Put two redirects before the seed."""
        start, between = story.url("/start"), story.url("/on-the-way")
        story.web[between] = Leaf(moved_to=story.seed)
        story.web[start] = Leaf(moved_to=between)
        story.seed = start

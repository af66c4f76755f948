"""A link that redirects."""

from __future__ import annotations

from interplay.story import Feature, Story
from interplay.truth import Leaf


class MovedLink(Feature):
    """Has a page that others link to answer from elsewhere."""

    name = "moved link"
    about = "/a redirects to /a2"

    def arrange(self, story: Story) -> None:
        """Move the page."""
        moved = story.url("/a2")
        story.web[moved] = story.web[story.url("/a")]
        story.web[story.url("/a")] = Leaf(moved_to=moved)

"""A page that does not come at the first time."""

from __future__ import annotations

from interplay.story import Feature, Story


class Retry(Feature):
    """Answers 503 once."""

    name = "retry"
    about = "/a answers 503 once, with a Retry-After of a second"
    rank = 70

    def arrange(self, story: Story) -> None:
        """Refuse the page behind whatever redirect leads to it."""
        leaf = story.web[story.url("/a")]
        (story.web[leaf.moved_to] if leaf.moved_to else leaf).refusals = 1

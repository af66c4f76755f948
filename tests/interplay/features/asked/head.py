"""A HEAD request."""

from __future__ import annotations

from interplay.story import Feature, Story


class Head(Feature):
    """Requests the head of a page."""

    name = "HEAD"
    about = "the seed is requested with HEAD"

    def arrange(self, story: Story) -> None:
        """Ask for it."""
        story.request["method"] = "HEAD"
        story.reads_nothing = True

"""A limit of pages for the crawl."""

from __future__ import annotations

from interplay.story import Feature, Story


class MaxPages(Feature):
    """Allows three pages a run."""

    name = "max_pages"
    about = "three pages at most; what was counted is forgotten with each run"

    def arrange(self, story: Story) -> None:
        """Ask for it."""
        story.most = story.request["max_pages"] = 3
        story.request["remember"] = 0
        story.forgets = True

"""A user's own spider."""

from __future__ import annotations

from interplay.story import Feature, Story


class OwnSpider(Feature):
    """Has a spider that yields requests with callbacks."""

    name = "own spider"
    about = "a spider of the user's follows links by requests with a callback"
    rank = 40

    def arrange(self, story: Story) -> None:
        """Have it crawl the pages."""
        story.pages_spider = "shop"

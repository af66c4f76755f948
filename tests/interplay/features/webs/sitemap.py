"""A sitemap as the seed."""

from __future__ import annotations

from interplay.story import Feature, Story
from interplay.truth import Leaf


class Sitemap(Feature):
    """Lists in a sitemap what the root page would link to."""

    name = "sitemap"
    about = "the seed is a sitemap, read by the spider of sitemaps"

    def arrange(self, story: Story) -> None:
        """Put a sitemap in the place of the root page."""
        root = story.web.pop(story.root)
        story.root = story.seed = story.url("/sitemap.xml")
        story.web[story.root] = Leaf(root.links, format="sitemap")
        story.spiderid = "sitemap"

"""A crawl with priority rules."""

from __future__ import annotations

from collections.abc import Sequence

from interplay.story import Feature, Story
from interplay.truth import Leaf


class Priorities(Feature):
    """Prefers some links, puts others last, and leaves one out."""

    name = "priorities"
    about = "fresh pages come first, deep ones last, and /never is not followed"

    def arrange(self, story: Story) -> None:
        """Ask for it, and link to the page that is left out from the root."""
        story.request["priorities"] = [
            {"match": "/never", "drop": True},
            {"match": "/fresh", "hosts": [story.host], "add": 300},
            {"depth": [2, 9], "add": -200},
        ]
        root = story.web[story.root]
        links = root.links
        root.links = lambda number: [story.url("/never"), *links(number)]
        story.web[story.url("/never")] = Leaf(dropped=True)

    def expect(self, story: Story) -> Sequence[str]:
        """The site has not seen the page that is left out."""
        return [f"visited: {visit.path}" for visit in story.visits if visit.path == "/never"]

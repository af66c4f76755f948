"""A POST request."""

from __future__ import annotations

from interplay.story import Feature, Story


class Post(Feature):
    """Posts a form as the seed."""

    name = "POST"
    about = "the seed is requested with POST and a body"

    def arrange(self, story: Story) -> None:
        """Ask for it."""
        story.request |= {"method": "POST", "body": "q=1"}

"""A robots.txt that disallows a page."""

from __future__ import annotations

from crawlstream_chaos.scripted_site import Answer
from interplay.story import Feature, Story


class Robots(Feature):
    """Disallows a page of the story's own host."""

    name = "robots.txt"
    about = "robots.txt disallows /b"

    def arrange(self, story: Story) -> None:
        """Write it."""
        text = b"User-agent: *\nDisallow: /b\n"
        story.robots = Answer(text, headers={"Content-Type": "text/plain"})
        story.web[story.url("/b")].fails = "robots"

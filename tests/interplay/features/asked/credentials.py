"""Headers of a crawl that only its own site may see."""

from __future__ import annotations

from interplay.laws import MARK
from interplay.story import Feature, Story


class Credentials(Feature):
    """Sends a secret with every page of the seed's own site."""

    name = "credentials"
    about = "the crawl has a header and a cookie of its own; one page is on a foreign site"

    def arrange(self, story: Story) -> None:
        """Ask for it."""
        story.request["headers"] = {MARK: f"of-{story.number}"}
        story.request["cookie"] = f"session={story.number}"

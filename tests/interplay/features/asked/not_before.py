"""A seed that is not fetched before its time."""

from __future__ import annotations

import time
from collections.abc import Sequence

from interplay.story import Feature, Story


class NotBefore(Feature):
    """Delays the seed."""

    name = "not_before"
    about = "the seed is fetched three seconds later at the earliest"

    def arrange(self, story: Story) -> None:
        """Ask for it."""
        story.request["not_before"] = time.time() + 3

    def expect(self, story: Story) -> Sequence[str]:
        """Return the pages that were requested before it."""
        return [
            f"{visit.path} was requested too early"
            for visit in story.visits
            if visit.at < story.request["not_before"] - 0.05 and visit.path != "/robots.txt"
        ]

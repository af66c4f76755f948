"""A queue that is too long to stay in memory."""

from __future__ import annotations

from interplay.story import Feature, Story
from interplay.truth import Leaf


class LongQueue(Feature):
    """Links the root page to so long a list that the middle of the queue is on the shelf."""

    name = "long queue"
    about = "30 more pages of one host; from the fourth on they wait on the shelf"
    rank = 30

    def arrange(self, story: Story) -> None:
        """Add them."""
        more = [story.url(f"/more-{number}") for number in range(30)]
        story.web |= {url: Leaf() for url in more}
        links = story.web[story.root].links
        story.web[story.root].links = lambda number: [*links(number), *more]

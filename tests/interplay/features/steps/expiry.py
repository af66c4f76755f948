"""A crawl that expires."""

from __future__ import annotations

from interplay.story import Feature, Story, feed_request


class Expiry(Feature):
    """Has the first run expire while its root page is in flight; it is fed again later."""

    name = "expiry"
    about = "a second record of the seed says that the crawl expired long ago"

    def arrange(self, story: Story) -> None:
        """Expect the ending of an expiry."""
        story.endings = "crawl_expired"
        story.rounds = max(story.rounds, 2)
        story.times += 1

    async def act(self, story: Story) -> None:
        """Let it expire."""
        request = story.request
        story.request = {**request, "expires": 1}
        await feed_request(story, 0)
        story.request = request

"""The seed is fed again while its crawl runs."""

from __future__ import annotations

from interplay.story import Feature, Story, feed_request
from support.waiting import wait_until


class SecondFeed(Feature):
    """Feeds the seed twice into one run: it comes twice, what it leads to once."""

    name = "second feed"
    about = "the seed is fed again while its root page is fetched"

    def arrange(self, story: Story) -> None:
        """Expect the root page twice."""
        story.times += 1

    async def act(self, story: Story) -> None:
        """Feed it, and wait until it has taken effect."""
        story.request["uuid"] = uuid = f"{story.appid}-again"
        await feed_request(story, 0)
        del story.request["uuid"]
        await wait_until(lambda: story.ground.witness.reply(uuid))

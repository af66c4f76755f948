"""A stop in the middle of the first run."""

from __future__ import annotations

from interplay.story import Feature, Story


class Stop(Feature):
    """Stops the crawl while its root page is in flight; it is fed again later."""

    name = "stop"
    about = "the first run is stopped while its root page is fetched; the seed is fed again"

    def arrange(self, story: Story) -> None:
        """Expect the ending of a stop."""
        story.endings = "crawl_stopped"
        story.rounds = max(story.rounds, 2)

    async def act(self, story: Story) -> None:
        """Stop it."""
        reply = await story.ground.ask(
            story, action="stop", spiderid=story.spiderid, crawlid=story.crawlid
        )
        assert "error" not in reply, reply

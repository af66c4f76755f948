"""A pause in the middle of the first run."""

from __future__ import annotations

import time
from collections.abc import Sequence

from interplay.story import Feature, Story
from support.waiting import wait_until


class Pause(Feature):
    """Pauses the crawl while its root page is in flight, and resumes it when that was delivered."""

    name = "pause"
    about = "the crawl is paused until its root page has come, then resumed"
    rank = 90

    def __init__(self) -> None:
        self._paused: dict[int, tuple[float, float]] = {}

    async def act(self, story: Story) -> None:
        """Pause it, let the root page come, resume it."""
        named = {"spiderid": story.spiderid, "crawlid": story.crawlid}
        reply = await story.ground.ask(story, action="pause", **named)
        assert "error" not in reply, reply
        since = time.time()
        story.gate.set()
        await wait_until(lambda: bool(story.records("crawled_firehose")))
        self._paused[story.number] = since, time.time()
        reply = await story.ground.ask(story, action="resume", **named)
        assert "error" not in reply, reply

    def expect(self, story: Story) -> Sequence[str]:
        """Return the pages that were requested meanwhile; images belong to the root page."""
        since, until = self._paused[story.number]
        return [
            f"{visit.path} was requested amid the pause"
            for visit in story.visits
            if since + 1 < visit.at < until and visit.host != story.images
        ]

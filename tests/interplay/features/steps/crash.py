"""Processes that are killed."""

from __future__ import annotations

from interplay.story import Feature, Story


class Crash(Feature):
    """Kills crawlers and the pipeline while the root page is in flight."""

    name = "crash"
    about = "all crawlers and the pipeline are killed while the root page is fetched"
    rank = 95

    async def act(self, story: Story) -> None:
        """Kill them, once for all stories of the moment."""
        await story.ground.crash(story)

"""A schedule feeds the seed."""

from __future__ import annotations

from interplay.story import Feature, Story

_OF_SEED = ("url", "method", "body")
_NEVER = "0 0 29 2 *"
"""So seldom that it fires by request only."""


class Schedule(Feature):
    """Fires three times, each when the last run has ended."""

    name = "schedule"
    about = "a schedule with a constant crawlid fires three times"

    def arrange(self, story: Story) -> None:
        """Have it fed by firings."""
        story.rounds, story.feed = 3, _fire

    async def prepare(self, story: Story) -> None:
        """Set the schedule."""
        seed = {name: story.request[name] for name in _OF_SEED if name in story.request}
        left_out = {*_OF_SEED, "appid"}
        crawl = {k: v for k, v in story.request.items() if k not in left_out}
        wish = {"cron": _NEVER, "crawl": crawl, "scope": "any", "seeds": [seed]}
        reply = await story.ground.ask(story, schedule="news", do="set", **wish)
        assert not reply.get("errors"), reply


async def _fire(story: Story, _number: int) -> None:
    await story.ground.ask(story, schedule="news", do="fire")

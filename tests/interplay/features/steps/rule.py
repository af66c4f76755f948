"""A narrow rule of politeness."""

from __future__ import annotations

from redis.asyncio import Redis

from crawlstream.keys import Partitions
from crawlstream.throttle.edit import ThrottleEditor
from crawlstream_chaos.facts.facts import HostRule
from crawlstream_frontier.frontier import Frontier
from interplay.story import Feature, Story
from support.waiting import wait_until


async def narrow(story: Story, host: str) -> None:
    """Allow two requests per second to a host; return once all partitions have the rule."""
    settings = story.ground.cluster.settings()
    editor = ThrottleEditor(
        settings.zookeeper_hosts, settings.throttle_path, default=settings.default_rule
    )
    await editor.set_rule(host, hits=2, window=1)
    keys = Partitions(story.ground.cluster.prefix, len(story.ground.redis))

    async def is_known() -> bool:
        for number, server in enumerate(story.ground.redis):
            async with Redis(port=server.port) as redis:
                table = await Frontier(redis, keys.keys(number)).rules.table()
            if table is None or host not in table.rules:
                return False
        return True

    await wait_until(is_known, every_s=0.1)


class NarrowRule(Feature):
    """Allows two requests per second."""

    name = "rule"
    about = "the site allows two requests in any second"

    async def prepare(self, story: Story) -> None:
        """Set the rule, and wait until the frontier has it."""
        await narrow(story, story.host)
        story.rules.append(HostRule(host=story.host, hits=2, window_s=1))

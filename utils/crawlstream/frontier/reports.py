"""What a worker reports of its holds, in the shapes of ``lua/exchange.lua``."""

from __future__ import annotations

from crawlstream.frontier.packing import none_as
from crawlstream.model.effects import Release, Requeue, Sent

RETRY_PRIORITY_STEP = -10
"""What one retry costs in priority."""


def pack_sent(sent: Sent) -> list[object]:
    """A departure, and what the site did if that is known."""
    told = [sent.token, sent.after_ms, sent.received]
    if (heard := sent.heard) is None:
        return told
    return [*told, heard.reaction.value, heard.wait_ms, heard.until_ms]


def pack_requeue(requeue: Requeue) -> list[object]:
    """A page whose download failed."""
    return [requeue.token, requeue.delay_ms, none_as(requeue.sent_ms), RETRY_PRIORITY_STEP]


def pack_release(release: Release) -> list[object]:
    """A page that is given back."""
    sent_ms = none_as(release.sent_ms)
    return [release.token, release.delay_ms, sent_ms, release.robots, release.crawl_delay_ms]

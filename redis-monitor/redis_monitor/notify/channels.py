"""The channels that the settings ask for, and what feeds them."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from crawlstream.boot.settings import Settings
from redis_monitor.notify.channel import Channel, Transport
from redis_monitor.notify.mail import Mail
from redis_monitor.notify.notice import Notice
from redis_monitor.notify.problems import Cluster, ProblemWatch
from redis_monitor.notify.webhook import Webhook


def notifying(settings: Settings, cluster: Cluster) -> Sequence[Coroutine[Any, Any, None]]:
    """Return the coroutines that send notices until cancelled; none if no channel is set."""
    channels = [
        Channel(
            transport,
            cluster.kafka,
            settings.topics.events,
            group=settings.kafka_group,
            cluster=cluster.name,
            about=settings.notify_about,
        )
        for transport in _transports(settings)
    ]
    work = [channel.run() for channel in channels]
    if channels and "problems" in settings.notify_about:

        def tell(notice: Notice) -> None:
            for channel in channels:
                channel.notify(notice)

        work.append(ProblemWatch(cluster, tell, after_s=settings.notify_after).run())
    return work


def _transports(settings: Settings) -> Sequence[Transport]:
    found: list[Transport] = []
    if settings.notify_webhook:
        found.append(Webhook(settings))
    if settings.notify_mail_to:
        found.append(Mail(settings))
    return found

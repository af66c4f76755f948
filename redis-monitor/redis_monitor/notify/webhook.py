"""A notice as a signed POST."""

from __future__ import annotations

from crawlstream.boot.settings import Settings
from crawlstream.boot.signed_post import PostFailed, SignedPost
from redis_monitor.notify.channel import NotAccepted, NotDelivered
from redis_monitor.notify.notice import Notice, encode_notice


class Webhook:
    """Posts notices to one URL."""

    name = "webhook"

    def __init__(self, settings: Settings) -> None:
        assert settings.notify_webhook
        assert settings.notify_webhook_secret
        secret = settings.notify_webhook_secret.get_secret_value()
        self._post = SignedPost(settings.notify_webhook, secret, settings)

    async def send(self, notice: Notice) -> None:
        """Return when the receiver has answered with 2xx; else NotDelivered or NotAccepted."""
        try:
            await self._post.send(notice.id, encode_notice(notice))
        except PostFailed as error:
            raise (NotAccepted if error.is_final else NotDelivered)(str(error)) from error

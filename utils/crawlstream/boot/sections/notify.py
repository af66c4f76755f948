"""Settings of notifications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import NoDecode

from crawlstream.boot.sections.crawling import Networks
from crawlstream.boot.sections.section import Section, check_url, new, parts

LEAST_SECRET = 16
"""Characters of a secret that signs requests."""
NOTICES = ("finished", "stopped", "expired", "problems", "quality", "undelivered", "skipped")


def _kinds(value: object) -> object:
    found = parts(value)
    if isinstance(found, Sequence) and (unknown := set(found) - set(NOTICES)):
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(NOTICES)}")
    return found


_Texts = Annotated[tuple[str, ...], NoDecode, BeforeValidator(parts)]
_Kinds = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_kinds)]


class NotifySettings(Section):
    """Notifications of crawls, their data and problems, sent by the redis-monitors."""

    notify_webhook: str | None = Field(None, validation_alias=new("NOTIFY_WEBHOOK"))
    """URL that notifications are posted to; default: none are."""
    notify_webhook_secret: SecretStr | None = Field(
        None, validation_alias=new("NOTIFY_WEBHOOK_SECRET")
    )
    """Secret that signs the requests, at least 16 characters; required for a webhook."""
    notify_networks: Networks = Field((), validation_alias=new("NOTIFY_NETWORKS"))
    """Internal address ranges (CIDR, comma-separated) that webhooks may be in: this one, and those
    of memories of pages."""
    notify_mail_to: _Texts = Field((), validation_alias=new("NOTIFY_MAIL_TO"))
    """Mail addresses, comma-separated, that notifications are sent to; default: none."""
    notify_mail_from: str = Field("crawlstream@localhost", validation_alias=new("NOTIFY_MAIL_FROM"))
    """Sender of the mails."""
    notify_smtp: SecretStr = Field(
        SecretStr("smtp://localhost:25"), validation_alias=new("NOTIFY_SMTP")
    )
    """Mail server, ``smtp://user:password@host:port`` (STARTTLS, if the server offers it; required
    for a password) or ``smtps://…`` (TLS from the start)."""
    notify_about: _Kinds = Field(NOTICES, validation_alias=new("NOTIFY_ABOUT"))
    """Comma-separated events to notify about: ``finished``, ``stopped``, ``expired``,
    ``problems``, ``quality`` of items that is missed, ``undelivered`` records, ``skipped``
    firings."""
    notify_after: float = Field(60, validation_alias=new("NOTIFY_AFTER"), ge=0)
    """Seconds that a problem must last before it is notified, and be gone before its end is."""

    @model_validator(mode="after")
    def _check_notify(self) -> Self:
        secret = self.notify_webhook_secret
        if self.notify_webhook is not None:
            url = check_url("CRAWLSTREAM_NOTIFY_WEBHOOK", self.notify_webhook, ("http", "https"))
            if url.username:
                raise ValueError("CRAWLSTREAM_NOTIFY_WEBHOOK: must be a URL without credentials")
            if not secret or len(secret.get_secret_value()) < LEAST_SECRET:
                raise ValueError(
                    "CRAWLSTREAM_NOTIFY_WEBHOOK_SECRET: a webhook needs a secret of at least"
                    f" {LEAST_SECRET} characters; `openssl rand -hex 16` generates one"
                )
        smtp = self.notify_smtp.get_secret_value()
        check_url("CRAWLSTREAM_NOTIFY_SMTP", smtp, ("smtp", "smtps"))
        return self

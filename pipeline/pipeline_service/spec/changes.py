"""Settings of the events for changes that a memory finds, in the file of the pipelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crawlstream.boot.sections.notify import LEAST_SECRET
from crawlstream.boot.sections.section import check_url
from crawlstream.errors import ConfigError
from pipeline_service.spec.quantities import flag, known, table, text
from pipeline_service.spec.where import expression

BY_LINES, NO_DIFF = "lines", "none"
TEXT_STAGES = ("markdown", "text")
"""Stages that make a text whose lines can be compared, each a field of its name."""
_KEYS = ("events", "where", "diff", "webhook", "secret")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesSpec:
    """Events of a memory for the changes that it finds."""

    url: str = ""
    """Expression of RE2 that is found in the URLs of pages with events; empty: in all."""
    diff: str = NO_DIFF
    """``lines``: an event has the lines of the text that were added and removed."""
    webhook: str = field(default="", repr=False)
    """URL that events are posted to; empty: none are."""
    secret: str = field(default="", repr=False)
    """Secret that signs these posts."""

    @property
    def has_diff(self) -> bool:
        """Return whether events have a diff."""
        return self.diff == BY_LINES

    @property
    def digest_words(self) -> Sequence[str]:
        """Words for the digest of the settings that all processes must have in common."""
        words = [f"where.url={self.url}"] if self.url else []
        words += [self.diff] if self.has_diff else []
        return ("changes", *words, *([self.webhook] if self.webhook else []))


def read_changes(value: Any, where: str) -> ChangesSpec | None:
    """Read a table of TOML; None: there are no events. ConfigError."""
    told = table(value, where)
    known(told, _KEYS, where)
    if "events" not in told:
        raise ConfigError(f"{where}: missing: events = true")
    if flag(told["events"], f"{where}.events"):
        url = _url(told.get("where", {}), f"{where}.where")
        return ChangesSpec(url=url, diff=_diff(told, where), **_webhook(told, where))
    if others := [key for key in told if key != "events"]:
        raise ConfigError(f"{where}.{others[0]} needs events = true")
    return None


def _url(value: Any, where: str) -> str:
    told = table(value, where)
    known(told, ("url",), where)
    return expression(told["url"], f"{where}.url") if "url" in told else ""


def _diff(told: Mapping[str, Any], where: str) -> str:
    found = told.get("diff", NO_DIFF)
    if found not in (BY_LINES, NO_DIFF):
        raise ConfigError(f'{where}.diff: expected "{BY_LINES}" or "{NO_DIFF}"')
    return str(found)


def _webhook(told: Mapping[str, Any], where: str) -> Mapping[str, str]:
    """Return URL and secret, or neither; an error never repeats them."""
    if "webhook" not in told and "secret" not in told:
        return {}
    if "webhook" not in told:
        raise ConfigError(f"{where}.secret signs what is sent to a webhook: add webhook")
    url, secret = (told.get(key, "") for key in ("webhook", "secret"))
    try:
        parts = check_url(f"{where}.webhook", text(url, f"{where}.webhook"), ("https", "http"))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if parts.username is not None or not (url.isascii() and url.isprintable()) or " " in url:
        raise ConfigError(
            f"{where}.webhook: must be a URL without credentials, in printable ASCII characters"
        )
    if len(text(secret, f"{where}.secret")) < LEAST_SECRET:
        raise ConfigError(
            f"{where}.secret: a webhook needs a secret of at least {LEAST_SECRET} characters:"
            ' secret = "${NAME}" reads it from the environment, `openssl rand -hex 16` makes one'
        )
    return {"webhook": url, "secret": secret}

"""The default User-Agent: it does not name the operator, and sites may block it."""

from __future__ import annotations

from crawlstream.boot.settings import Settings

_PLACEHOLDER = Settings.model_fields["user_agent"].default


def placeholder_warning(settings: Settings) -> str:
    """A sentence if sites would see the placeholder; '' if USER_AGENT is set."""
    if settings.user_agent != _PLACEHOLDER:
        return ""
    return (
        f"USER_AGENT is not set, so sites see {_PLACEHOLDER!r}: set it to a name and a contact"
        " page of yours and start the cluster again before crawling beyond this machine"
    )

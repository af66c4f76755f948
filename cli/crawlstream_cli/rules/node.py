"""The node with the rules, as the commands edit it."""

from __future__ import annotations

from crawlstream.boot.settings import load_settings
from crawlstream.throttle.edit import ThrottleEditor


def rules_editor() -> ThrottleEditor:
    """Return the editor of the cluster's rules."""
    settings = load_settings()
    return ThrottleEditor(
        settings.zookeeper_hosts, settings.throttle_path, default=settings.default_rule
    )

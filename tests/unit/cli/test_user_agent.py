"""The User-Agent that sites see by default."""

from __future__ import annotations

from crawlstream.boot.settings import load_settings
from crawlstream_cli.common.user_agent import placeholder_warning


def test_the_placeholder_is_warned_of() -> None:
    """It names no operator; any other name is the operator's own business."""
    assert placeholder_warning(load_settings()).startswith("USER_AGENT is not set, so sites see")
    assert placeholder_warning(load_settings(user_agent="example-bot/1.0")) == ""

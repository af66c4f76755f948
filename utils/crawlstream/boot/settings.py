"""Startup settings: one frozen object a process, from environment and ``.env``.

Settings that change while the cluster runs are not here: they are the throttle rules.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from crawlstream.boot.access import Access
from crawlstream.boot.sections.crawler import CrawlerSettings
from crawlstream.boot.sections.crawling import AddressSettings, CrawlingSettings
from crawlstream.boot.sections.kafka import KafkaSettings
from crawlstream.boot.sections.limits import CrawlSettings, LimitSettings
from crawlstream.boot.sections.notify import NotifySettings
from crawlstream.boot.sections.observability import ObservabilitySettings
from crawlstream.boot.sections.pipeline import PipelineSettings
from crawlstream.boot.sections.redis import RedisSettings
from crawlstream.boot.sections.rendering import RenderSettings
from crawlstream.boot.sections.rest import RestSettings
from crawlstream.boot.sections.throttle import (
    DefaultRuleSettings,
    ScopeSettings,
    ZooKeeperSettings,
)
from crawlstream.errors import ConfigError
from crawlstream.model.request import RequestLimits


class Settings(
    RedisSettings,
    KafkaSettings,
    ZooKeeperSettings,
    DefaultRuleSettings,
    ScopeSettings,
    CrawlingSettings,
    AddressSettings,
    CrawlSettings,
    LimitSettings,
    CrawlerSettings,
    RenderSettings,
    RestSettings,
    NotifySettings,
    PipelineSettings,
    ObservabilitySettings,
    Access,
):
    """Every startup setting of every process, with unit and default.

    ConfigError is raised by :func:`load_settings`, never by a process in mid-work.
    """

    @property
    def download_slots(self) -> int:
        """How many pages a crawler fetches at once."""
        return self.render_pages if self.render else self.concurrent_requests

    @property
    def request_limits(self) -> RequestLimits:
        """How much a request may ask for, and what."""
        return replace(super().request_limits, tls_profiles=self.tls_profiles)


def load_settings(**overrides: Any) -> Settings:
    """Read the settings of this process once; ConfigError names the variable and what it may be.

    ``overrides`` are named as the variables are, or as the fields.
    """
    given = {
        Settings.variables_of(name)[0] if name in Settings.model_fields else name: value
        for name, value in overrides.items()
    }
    try:
        settings = Settings(**given)
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors())
        raise ConfigError("; ".join(problems)) from error
    settings.apply()
    return settings

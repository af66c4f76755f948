"""Startup settings: one frozen object a process, from environment and ``.env``.

Settings that change while the cluster runs are not here: they are the throttle rules.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

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
from crawlstream.boot.sections.signing import SigningSettings
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
    SigningSettings,
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
        """Return how many pages a crawler fetches at once."""
        return self.render_pages if self.render else self.concurrent_requests

    @property
    def contradictions(self) -> Sequence[str]:
        """Sentences about settings that are allowed and make little sense together."""
        follows = "CRAWLSTREAM_DIRECTIVES=record follows nofollow links"
        found = {
            f"requests are signed, and {follows}: who verifies crawlers expects `obey`": (
                self.signing_keys and self.directives == "record"
            ),
            f"CRAWLSTREAM_DIRECTIVES={self.directives} obeys pages, and ROBOTSTXT_OBEY=false"
            " ignores robots.txt": (self.directives != "record" and not self.robotstxt_obey),
        }
        return [sentence for sentence, is_so in found.items() if is_so]

    @property
    def request_limits(self) -> RequestLimits:
        """Return how much a request may ask for, and what."""
        return replace(super().request_limits, tls_profiles=self.tls_profiles)


def load_settings(**overrides: Any) -> Settings:
    """Read the settings of this process once; ConfigError names the variable and what it may be.

    ``overrides`` are named as the variables are, or as the fields.
    """
    given = {
        Settings.variables_of(name)[0] if name in Settings.model_fields else name: value
        for name, value in overrides.items()
    }
    _refuse_undecodable({**os.environ, **given})
    try:
        settings = Settings(**given)
    except ValidationError as error:
        raise ConfigError("; ".join(map(_sentence, error.errors()))) from error
    settings.apply()
    return settings


def _refuse_undecodable(given: Mapping[str, Any]) -> None:
    """Raise ConfigError for a variable that is not text in the encoding of this process."""
    for name in chain.from_iterable(map(Settings.variables_of, Settings.model_fields)):
        value = given.get(name)
        if isinstance(value, str) and not value.isascii() and _SURROGATE.search(value):
            raise ConfigError(f"{name}: is not valid UTF-8")


_SURROGATE = re.compile("[\ud800-\udfff]")


def _sentence(problem: ErrorDetails) -> str:
    """A problem that pydantic has found, without its own words for who found it."""
    said = problem["msg"].removeprefix("Value error, ")
    where = ".".join(map(str, problem["loc"]))
    return f"{where}: {said}" if where else said

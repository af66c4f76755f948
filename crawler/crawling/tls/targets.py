"""Which version of a browser a profile greets like: one for each, changed here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Final

from crawlstream.errors import ConfigError

TARGETS: Final[Mapping[str, str]] = {
    "chrome": "chrome150",
    "firefox": "firefox147",
    "safari": "safari2601",
}
"""By profile, as curl_cffi calls it."""


def require(profiles: Iterable[str]) -> None:
    """ConfigError where profiles are allowed that this installation has not."""
    wanted = [name for name in profiles if name in TARGETS]
    if wanted and find_spec("curl_cffi") is None:
        raise ConfigError(
            f"CRAWLSTREAM_TLS_PROFILES has {', '.join(wanted)}: install crawlstream[tls], or leave"
            " them out"
        )

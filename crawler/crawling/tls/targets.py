"""Which version of a browser a profile greets like: one for each, changed here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Final

from crawlstream.errors import MissingExtra

TARGETS: Final[Mapping[str, str]] = {
    "chrome": "chrome150",
    "firefox": "firefox147",
    "safari": "safari2601",
}
"""By profile, as curl_cffi calls it."""


def require(profiles: Iterable[str]) -> None:
    """MissingExtra where profiles are allowed that this installation has not."""
    wanted = [name for name in profiles if name in TARGETS]
    if wanted and find_spec("curl_cffi") is None:
        named = f"{', '.join(wanted)} in CRAWLSTREAM_TLS_PROFILES"
        raise MissingExtra(named, "curl_cffi", "tls")

"""Base of all sections: the names of the variables from which fields are read."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cache
from ipaddress import ip_address
from typing import Annotated, Any
from urllib.parse import SplitResult, urlsplit  # noqa: TID251  settings, of any scheme

from pydantic import AfterValidator, AliasChoices, AliasGenerator, BeforeValidator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)


class Section(BaseSettings):
    """Settings that belong together.

    A field is read from the variable with its name in upper case, unless it names another. Settings
    of the predecessor and of Scrapy have bare names; new ones begin with ``CRAWLSTREAM_``.
    """

    model_config = SettingsConfigDict(
        alias_generator=AliasGenerator(validation_alias=str.upper),
        env_file=".env",
        extra="ignore",
        frozen=True,
        case_sensitive=True,
    )

    @classmethod
    def variables_of(cls, field: str) -> Sequence[str]:
        """The variables that set a field, the one that wins first."""
        alias = cls.model_fields[field].validation_alias
        return list(map(str, alias.choices if isinstance(alias, AliasChoices) else [alias]))

    @classmethod
    def settings_customise_sources(  # type: ignore[override]  # pydantic names all arguments
        cls,
        settings_cls: type[Section],
        init_settings: PydanticBaseSettingsSource,
        **read: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources that set something: any other costs a millisecond all the same."""
        found = (read["env_settings"], read["dotenv_settings"])
        return (init_settings, *(each for each in found if _sets_something(settings_cls, each)))


def _sets_something(section: type[Section], source: PydanticBaseSettingsSource) -> bool:
    given = source.env_vars if isinstance(source, EnvSettingsSource) else {}
    return not _variables(section).isdisjoint(given)


@cache
def _variables(section: type[Section]) -> frozenset[str]:
    return frozenset(v for field in section.model_fields for v in section.variables_of(field))


def new(*names: str) -> AliasChoices:
    """Return the variables of a new setting: the first name gets the prefix, the others stay."""
    first, *others = names
    return AliasChoices(f"CRAWLSTREAM_{first}", *others)


def parts(value: Any) -> Any:
    """The parts of ``a:1,b:2``; a sequence as it is."""
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in value.split(",") if part.strip())


def check_addresses(name: str, given: Sequence[str], *, default_port: int | None = None) -> None:
    """ValueError for a server that is not ``host:port``.

    ``default_port``: what one without a port means.
    """
    for server in given:
        host, port = _split(server, default_port)
        if not _HOST.fullmatch(host) or not port.isdecimal() or not 1 <= int(port) <= 65535:
            raise ValueError(f"{name}: {server!r} is not host:port")


def _split(server: str, default_port: int | None) -> tuple[str, str]:
    host, colon, port = server.rpartition(":")
    if default_port is not None and (not colon or server.endswith("]")):
        return server, str(default_port)
    return host, port


_HOST = re.compile(r"[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.%A-Za-z0-9]+\]")
"""A name, an IPv4 address, or an IPv6 address in brackets."""


def check_url(name: str, text: str, schemes: Collection[str]) -> SplitResult:
    """The parts of a URL; ValueError if it has another scheme, no host, or no valid port."""
    try:
        url = urlsplit(text)
        is_whole = url.scheme in schemes and url.hostname and url.port != 0
    except ValueError:
        is_whole = False
    if not is_whole:
        forms = " or ".join(f"{scheme}://host" for scheme in schemes)
        raise ValueError(f"{name}: must be {forms}, with a port from 1 to 65535 if any")
    return url


def _one_host(text: str) -> str:
    if not _HOST.fullmatch(text):
        try:
            ip_address(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a host name or IP address") from None
    return text


Host = Annotated[str, AfterValidator(_one_host)]
"""A host name or IP address, without a port."""
Hosts = Annotated[tuple[str, ...], NoDecode, BeforeValidator(parts)]
"""Servers, as ``host:port`` with commas between them."""

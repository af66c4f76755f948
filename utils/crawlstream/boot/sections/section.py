"""What all sections have in common: from which variables their fields are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AliasChoices, AliasGenerator, BeforeValidator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict


class Section(BaseSettings):
    """Settings that belong together.

    A field is read from the variable with its name in upper case, unless it names another: those of
    the predecessor and of Scrapy have bare names, ours begin with ``CRAWLSTREAM_``.
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


def new(*names: str) -> AliasChoices:
    """The variables of a setting of ours: the first one with our prefix, the others as they are."""
    first, *others = names
    return AliasChoices(f"CRAWLSTREAM_{first}", *others)


def parts(value: Any) -> Any:
    """The parts of ``a:1,b:2``; a sequence as it is."""
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in value.split(",") if part.strip())


Hosts = Annotated[tuple[str, ...], NoDecode, BeforeValidator(parts)]
"""Servers, as ``host:port`` with commas between them."""

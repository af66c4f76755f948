"""API keys of REST as one setting: ``role[@appid+appid…][/option=value…]:secret``, by commas."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field

_FORM = re.compile(r"([^@/:]*)(?:@([^@/:]*))?((?:/[^/:]*)*):(.*)", re.DOTALL)
_OPTIONS = ("name", "rate", "waiting", "schedules", "scrapes")


class ApiKey(BaseModel):
    """A key that admits a client to REST; each role may do everything the roles before it may."""

    model_config = ConfigDict(frozen=True)

    role: Literal["read", "submit", "operate"]
    secret: str = Field(min_length=16, pattern=r"^[!-~]+$", repr=False)
    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._-]{1,64}$")
    """Name of the client in the audit log; default: a fingerprint of the secret."""
    appids: frozenset[str] = frozenset()
    """The applications that it is bound to; empty: to none, all are open to it."""
    rate: float | None = Field(default=None, gt=0)
    """Requests per second; default: ``rest_rate``."""
    waiting: int | None = Field(default=None, ge=1)
    """Pages of its applications that may wait when it feeds more; default: any number."""
    schedules: int | None = Field(default=None, ge=0)
    """Schedules of its applications when it sets one more; default: any number."""
    scrapes: int | None = Field(default=None, ge=1)
    """Its scrapes in progress, in each partition of the frontier; default: 20."""


def read_keys(value: Any) -> Any:
    """The fields of each key in ``role:secret,…``; a sequence as it is.

    ValueError says which key is of another form, by its number: it may hold a secret.
    """
    if not isinstance(value, str):
        return value
    texts = [text.strip() for text in value.split(",") if text.strip()]
    return tuple(_fields(number, text) for number, text in enumerate(texts, 1))


def _fields(number: int, text: str) -> Mapping[str, object]:
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(
            f"key {number} does not have the form role[@appid+appid…][/option=value…]:secret"
        )
    role, appids, options, secret = found.groups()
    fields: dict[str, object] = {"role": role, "secret": secret}
    if appids is not None:
        fields["appids"] = _appids(number, appids.split("+"))
    for option in options.split("/")[1:]:
        name, _, told = option.partition("=")
        if name not in _OPTIONS or name in fields:
            raise ValueError(
                f"key {number}: unknown or repeated option; allowed are {', '.join(_OPTIONS)},"
                " each once"
            )
        fields[name] = told
    return fields


def _appids(number: int, texts: Sequence[str]) -> frozenset[str]:
    appids = frozenset(map(unquote, texts))
    if not all(3 <= len(appid) <= 40 for appid in appids):
        raise ValueError(f"key {number}: an appid must have 3 to 40 characters")
    return appids

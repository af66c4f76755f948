"""Settings of the REST API."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

from crawlstream.boot.api_keys import ApiKey, read_keys
from crawlstream.boot.sections.section import Host, Section, new


def _read_announcers(value: object) -> object:
    """Read ``appid@domain+domain`` as application and domains; ValueError."""
    if not isinstance(value, str) or not value:
        return value or ()
    appid, _, domains = value.partition("@")
    if not 3 <= len(appid) <= 40 or not all(domains.split("+")):
        raise ValueError("expected APPID@DOMAIN+DOMAIN, such as news@example.com+example.org")
    return (appid, *domains.split("+"))


class RestSettings(Section):
    """REST API."""

    rest_host: Host = Field("127.0.0.1", validation_alias=new("REST_HOST"))
    """Address that REST listens on. Addresses other than loopback need ``CRAWLSTREAM_API_KEYS``."""
    rest_port: int = Field(5343, validation_alias=new("REST_PORT", "FLASK_PORT"), ge=1, le=65535)
    """Port that REST listens on."""
    api_keys: Annotated[tuple[ApiKey, ...], NoDecode, BeforeValidator(read_keys)] = Field(
        (), validation_alias=new("API_KEYS"), repr=False
    )
    """API keys, comma-separated ``role:secret``. To limit a key to applications and quotas:
    ``role@appid+appid/name=…/rate=…/waiting=…/schedules=…/scrapes=…:secret``. Empty: every client
    that reaches REST has all rights."""
    rest_max_body_bytes: int = Field(
        16 * 1024 * 1024, validation_alias=new("REST_MAX_BODY_BYTES"), ge=1024
    )
    """Maximum size of an HTTP request body, in bytes."""
    rest_rate: float = Field(2000, validation_alias=new("REST_RATE"), ge=0)
    """Maximum rate of HTTP requests per second and client; bursts of twice as many are allowed. 0:
    unlimited."""
    rest_peer_connections: int = Field(500, validation_alias=new("REST_PEER_CONNECTIONS"), ge=1)
    """Maximum number of connections per client address. Raise it if REST is behind a proxy that
    opens more."""
    scrape_share: float = Field(0.5, validation_alias=new("SCRAPE_SHARE"), ge=0.05, le=1)
    """Part of a site's rate limit that scrapes may use while pages of crawls wait for the site."""
    scrape_bytes: int = Field(
        64 * 1024 * 1024, validation_alias=new("SCRAPE_BYTES"), ge=1024 * 1024
    )
    """Maximum bytes of scraped pages that REST keeps until clients have read their answers, half of
    them for one client; further pages wait. REST uses twice as much memory."""
    indexnow: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_read_announcers)] = Field(
        (), validation_alias=new("INDEXNOW")
    )
    """Sites that may announce changed pages by [IndexNow](recurring.md#indexnow), without an API
    key: ``appid@domain+domain``, with the application of the memory. Empty: none."""
    mcp: Literal["off", "read", "submit"] = Field("off", validation_alias=new("MCP"))
    """Tools for language models at ``/mcp``: only ``submit`` has those that start and stop crawls.
    A caller can do only what its API key permits. Needs the extra ``mcp``."""
    api_key: str = Field("", validation_alias=new("API_KEY"), pattern=r"^[!-~]*$", repr=False)
    """API key with which the commands ``mcp`` and ``map`` call the REST service."""
    wait_for_response_time: float = Field(5, gt=0)
    """Seconds that REST waits for the cluster's reply before it answers with a ``poll_id``."""

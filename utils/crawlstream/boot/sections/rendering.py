"""Settings of crawlers with a browser."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

from crawlstream.boot.sections.section import Section, new, parts
from crawlstream.model.egress.render import TYPES, USUAL_TYPES


def _types(value: Any) -> Any:
    found = parts(value)
    if unknown := set(found) - set(TYPES):
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(TYPES)}")
    return found


_Types = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_types)]


class RenderSettings(Section):
    """Rendering: pages that need JavaScript."""

    render: bool = Field(default=False, validation_alias=new("RENDER"))
    """This crawler has a browser, and fetches only the pages of crawls with ``"render"``; the
    crawlers without one fetch the others."""
    render_pages: int = Field(4, validation_alias=new("RENDER_PAGES"), ge=1, le=16)
    """Maximum number of pages that are rendered at once, per crawler process."""
    render_timeout: float = Field(30, validation_alias=new("RENDER_TIMEOUT"), gt=0, le=240)
    """Seconds after which a page is taken as it is, complete or not."""
    render_requests: int = Field(60, validation_alias=new("RENDER_REQUESTS"), ge=0, le=1000)
    """Maximum number of further requests of a rendered page, or for requisites of an archived one,
    to all sites together. Its own site gets at most as many as its rate-limit rule allows
    (`render`)."""
    render_bytes: int = Field(32 * 1024 * 1024, validation_alias=new("RENDER_BYTES"), ge=64 * 1024)
    """Maximum size of all that a rendered page loads, in bytes, or of the requisites of an archived
    one; its requests fail beyond it."""
    requisites_timeout: float = Field(20, validation_alias=new("REQUISITES_TIMEOUT"), gt=0, le=120)
    """Seconds for the requisites of a page of a crawl with `"requisites"`; its result waits for
    them so long, and names those that have not come."""
    render_types: _Types = Field(USUAL_TYPES, validation_alias=new("RENDER_TYPES"))
    """Resource types that rendered pages may load, comma-separated: `document` (of a frame),
    `script`, `stylesheet`, `fetch` (also XMLHttpRequest), `image`, `media`, `font`. If not set,
    pages with a screenshot may load `image` and `font`, too."""
    render_memory_mb: int = Field(1024, validation_alias=new("RENDER_MEMORY_MB"), ge=128)
    """Memory limit of the browser with all of its processes, in MiB. Above it, another one is
    started, and the old one ends with its pages."""
    render_recycle: int = Field(200, validation_alias=new("RENDER_RECYCLE"), ge=1)
    """Number of pages after which a browser is replaced in the same way."""
    render_browser: str = Field("", validation_alias=new("RENDER_BROWSER"))
    """Path of the browser. Default: the first that is installed of chromium-headless-shell,
    chromium and google-chrome; the others need several times the CPU time of the first."""
    render_sandbox: bool = Field(default=True, validation_alias=new("RENDER_SANDBOX"))
    """Run the browser in its sandbox, which needs user namespaces. Without it a page that breaks
    out of the browser has all rights of its user."""
    render_user: str = Field("", validation_alias=new("RENDER_USER"))
    """User that the browser runs as, if the crawler runs as root; default: the one without
    rights (65534)."""

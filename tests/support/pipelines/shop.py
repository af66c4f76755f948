"""Functions and models as users write them for stages, good ones and others."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from pipeline_service import Page


def product(page: Page) -> Mapping[str, Any] | None:
    """The product that a page shows, if it shows one."""
    name = page.select.css("h1::text").get()
    price = page.select.css(".price::text").get()
    if name is None:
        return None
    return {"name": name, "price": float(price) if price else None, "seen": date(2026, 11, 1)}


def several(page: Page) -> Iterator[Mapping[str, Any]]:
    """Each ``li`` of a page."""
    for text in page.select.css("li::text").getall():
        yield {"name": text, "title": page.fields.get("title")}


def doubled(page: Page) -> list[Mapping[str, Any]]:
    """Each item twice."""
    return [{**page.fields, "copy": n} for n in range(2)]


def is_shop(page: Page) -> bool:
    """Return whether a page is one of the shop."""
    return "shop" in page.text


def prints(page: Page) -> Mapping[str, Any]:
    """Print a line: it must not be taken for an answer."""
    sys.stdout.write(f"hello from {page.url}\n")
    sys.stdout.flush()
    return {"pid": os.getpid()}


def by_body(page: Page) -> Mapping[str, Any]:
    """Whatever the body asks for; ``TRACE`` names a file that has a line for each attempt."""
    order = page.body.decode()
    if trace := os.environ.get("TRACE"):
        with Path(trace).open("a") as file:
            file.write(f"{order} {os.getpid()}\n")
    if order in _ORDERS:
        made: Mapping[str, Any] = _ORDERS[order]()
        return made
    return {"order": order, "pid": os.getpid()}


def _raise() -> None:
    raise ValueError("on purpose")


_ORDERS: Mapping[str, Callable[[], Any]] = {
    "exit": lambda: os._exit(3),
    "crash": lambda: ctypes.string_at(0),
    "hang": lambda: time.sleep(3600),
    "memory": lambda: {"size": len(b"x" * (4 << 30))},
    "large": lambda: {"text": "x" * (9 << 20)},
    "raise": _raise,
    "quit": sys.exit,
}


async def asynchronous(page: Page) -> None:
    """A function that no stage can be."""


class Product(BaseModel):
    """Model of pydantic with the rules of the schema."""

    name: str = Field(min_length=1)
    price: float = Field(ge=0)
    tags: list[str] | None = None

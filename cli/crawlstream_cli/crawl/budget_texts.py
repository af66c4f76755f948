"""Budgets of a crawl, as people type and read them."""

from __future__ import annotations

import re

import typer

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_MOST = 10**15


def bytes_of(text: str) -> int:
    """The bytes in ``500M``, ``10G``, ``1.5T``; BadParameter for anything else."""
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?) ?([KMGT]?)B?", text.strip(), re.IGNORECASE)
    most = round(float(found[1]) * _UNITS[found[2].upper()]) if found else 0
    if not 0 < most <= _MOST:
        raise typer.BadParameter(
            f"'{text}' is not a number of bytes of up to 1000T, such as 500M or 10G"
        )
    return most

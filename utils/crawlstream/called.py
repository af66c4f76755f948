"""How the command is called where this code runs, for messages that name a command to type."""

from __future__ import annotations

from pathlib import Path

_IN_CHECKOUT = Path(__file__).resolve().parents[2] / "crawlstream"

COMMAND = "./crawlstream" if _IN_CHECKOUT.is_file() else "crawlstream"
"""The script of a checkout, or the program that a package installs, as in images."""

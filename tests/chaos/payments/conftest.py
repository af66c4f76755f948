"""A crawl that pays."""

from __future__ import annotations

from chaos.payments.paid_round import paid_fixture

__all__ = ["paid_fixture"]

"""Both ways of a page through a crawler process, for tests where the way matters."""

from __future__ import annotations

import pytest

WAYS = ("lane", "engine")

both_ways = pytest.mark.parametrize("way", WAYS, indirect=True)
"""Runs a test that uses the fixture ``cluster`` once by the fetch lane, once by Scrapy's engine."""

"""The add-on turns off the parts of Scrapy that the frontier replaces, or that are dangerous."""

from __future__ import annotations

import subprocess
import sys

import pytest
from scrapy.extensions.telnet import TelnetConsole
from scrapy.settings import Settings
from scrapy.utils.misc import load_object

from crawling.addon import add_components

_UNUSED = "scrapy.extensions.telnet", "scrapy.downloadermiddlewares.cookies", "aiohttp"
STARTED = f"""
import sys
from scrapy.settings import Settings
from crawling.addon import add_components
add_components(settings := Settings())
for kind in ("DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "ITEM_PIPELINES", "EXTENSIONS"):
    settings.get_component_priority_dict_with_base(kind)
print([name for name in {_UNUSED!r} if name in sys.modules])
"""


@pytest.mark.parametrize("console", [TelnetConsole, "scrapy.extensions.telnet.TelnetConsole"])
def test_a_project_cannot_turn_on_what_a_crawler_must_not_have(console: object) -> None:
    """Named by its path or its class, with any order and priority; other extensions stay."""
    named = {console: 500, "scrapy.extensions.periodic_log.PeriodicLog": 7}
    settings = Settings()
    settings.set("EXTENSIONS", named, "cmdline")
    add_components(settings)
    found = settings.get_component_priority_dict_with_base("EXTENSIONS")
    names = {load_object(each).__name__: order for each, order in found.items()}
    assert names == {"PeriodicLog": 7, "Worker": 0, "Watcher": 1}


def test_components_of_scrapy_that_are_turned_off_are_not_imported() -> None:
    """They would be a fifth of the CPU of a crawler's start."""
    done = subprocess.run(
        [sys.executable, "-c", STARTED], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"

"""A user's Scrapy project is checked before its crawlers and the servers start."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawling.project import settings_of
from crawlstream.errors import ConfigError

SPIDER = """\
from crawling import ClusterSpider


class Shop(ClusterSpider):
    name = "shop-of-a-project"
"""
PIPELINE = """\
class Prices:
    @classmethod
    def {method}(cls, given):
        return cls()
"""


@pytest.mark.parametrize(
    ("method", "named", "says"),
    [
        ("from_settings", "Prices", "Scrapy no longer calls Prices.from_settings: write from_cra"),
        ("from_crawler", "Price", "'{package}.pipelines' doesn't define any object named 'Price'"),
        ("from_crawler", "Prices", ""),
    ],
)
def test_a_pipeline_that_cannot_be_set_up_is_named(
    method: str, named: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence has the setting, the class and the remedy; what fits is accepted."""
    package = f"project_{method}_{named.lower()}"
    folder = tmp_path / package
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "spiders.py").write_text(SPIDER)
    (folder / "pipelines.py").write_text(PIPELINE.format(method=method))
    (folder / "settings.py").write_text(
        f'SPIDER_MODULES = ["{package}.spiders"]\n'
        f'ITEM_PIPELINES = {{"{package}.pipelines.{named}": 50}}\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", f"{package}.settings")
    if not says:
        assert settings_of("shop-of-a-project").getdict("ITEM_PIPELINES")
        return
    with pytest.raises(ConfigError) as refused:
        settings_of("shop-of-a-project")
    assert str(refused.value).startswith("ITEM_PIPELINES: ")
    assert says.format(package=package) in str(refused.value)

"""The locks of packages are renewed from one resolution."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlstream_cli.dev import lock

BASE = "a==1 \\\n    --hash=sha256:00\n    # via crawlstream\n"
MORE = "b==2 \\\n    --hash=sha256:11\n"
PROJECT = """[project.optional-dependencies]
tls = ["b"]
[dependency-groups]
dev = []
"""
UV = f"""#!/bin/sh
printf '%s' '{BASE}'
echo '    #   -c /tmp/whole.txt'
case "$*" in *"--extra tls"*) printf '%s' '{MORE}' ;; esac
"""
"""A resolution: package a for all, package b for the extra."""


def test_a_set_locks_only_what_the_product_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes the product's packages to one file, additional ones of each set to another."""
    uv, product = tmp_path / "uv", tmp_path / "requirements.txt"
    uv.write_text(UV)
    uv.chmod(0o700)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "requirements").mkdir()
    product.write_text("a==0 \\\n    --hash=sha256:22\n")
    monkeypatch.setattr(lock, "_UV", (str(uv),))
    monkeypatch.setattr(lock, "checkout", tmp_path.joinpath)
    lock.main([])
    assert product.read_text() == BASE
    assert (tmp_path / "requirements" / "tls.txt").read_text() == MORE
    assert (tmp_path / "requirements" / "dev.txt").read_text() == ""

"""``python -m crawlstream``: the ``crawlstream`` command, by the name of what was installed."""

from __future__ import annotations

import runpy

runpy.run_module("crawlstream_cli", run_name="__main__", alter_sys=True)

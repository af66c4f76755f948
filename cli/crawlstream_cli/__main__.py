"""``python -m crawlstream_cli``, and the ``crawlstream`` command."""

from __future__ import annotations

import sys

from crawlstream_cli.app import run


def main() -> None:
    """Run one command and exit with its status."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()

"""Become the browser: ``python launch.py PARENT USER READ WRITE PROGRAM ARGUMENT…``.

A process with threads must not run Python between fork and exec, so this program does. It ends
with its parent, drops its rights, puts the pipes where the browser expects them, and is replaced
by the browser.
"""

from __future__ import annotations

import os
import pwd
import sys

from crawlstream_extract.workers.tether import tie_to

_READS, _WRITES = 3, 4
"""Descriptors on which Chromium reads commands and writes answers."""


def main() -> None:
    """Run the program in this process."""
    parent, user, reads, writes, *argv = sys.argv[1:]
    if user:
        known = pwd.getpwnam(user)
        os.setgroups([])
        os.setresgid(known.pw_gid, known.pw_gid, known.pw_gid)
        os.setresuid(known.pw_uid, known.pw_uid, known.pw_uid)
    tie_to(int(parent))
    commands, answers = os.dup(int(reads)), os.dup(int(writes))
    os.dup2(commands, _READS)
    os.dup2(answers, _WRITES)
    os.closerange(_WRITES + 1, 1024)
    os.set_inheritable(_READS, True)  # noqa: FBT003  its only way
    os.set_inheritable(_WRITES, True)  # noqa: FBT003  its only way
    os.execv(argv[0], argv)  # noqa: S606  no shell


if __name__ == "__main__":
    main()

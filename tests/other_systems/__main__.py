"""Run the `trilogue` command as on Windows: `python -m tests.other_systems serve`.

Everything that only POSIX systems have is taken away before the command is loaded. What only Windows has is not there.
"""

import asyncio
import os
import select
import signal
import sys
from importlib import import_module
from typing import Any

ABSENT = ("uvloop", "fcntl", "termios", "resource", "pwd", "grp")


def refuse(*_: object) -> None:
    raise NotImplementedError


modules: dict[str, Any] = dict.fromkeys(ABSENT)
sys.modules.update(modules)
for owner, names in ((signal, ("SIGHUP", "pthread_sigmask")), (os, ("fork",)), (select, ("poll",))):
    for name in names:
        delattr(owner, name)
for name in ("start_unix_server", "open_unix_connection"):
    delattr(asyncio, name)
asyncio.SelectorEventLoop.add_signal_handler = refuse  # type: ignore[assignment,method-assign]
import_module("trilogue.__main__").main()

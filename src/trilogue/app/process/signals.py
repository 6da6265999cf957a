"""Signals, also on systems that lack some of them: Windows has no SIGHUP, and its event loop takes no handlers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

RELOAD: int | None = getattr(signal, "SIGHUP", None)
"""the signal that reloads the configuration; None where there is none"""


def hold_reloads() -> None:
    """Keep a reload that is asked for now until there is a handler: it must neither end the process nor get lost."""
    if RELOAD is not None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {RELOAD})


def handle_signal(number: int, handler: Callable[..., None], *arguments: Any) -> None:
    """Call a handler in the running event loop when the process gets a signal."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(number, handler, *arguments)
    except NotImplementedError:
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(handler, *arguments))

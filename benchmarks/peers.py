"""The gateways that Trilogue is measured beside.

Each runs as one worker on loopback, without a database, with its log of requests off, and as its makers advise for
speed.
"""

from __future__ import annotations

from benchmarks.interpreter import Interpreter
from benchmarks.litellm import litellm
from benchmarks.nginx import NGINX
from benchmarks.peer import Peer
from benchmarks.portkey import PORTKEY

NAMES = ("nginx", "LiteLLM", "Portkey")


def peers(interpreter: Interpreter) -> tuple[Peer, ...]:
    """All of them, in the order of `NAMES`; those written in Python run under this interpreter."""
    return NGINX, litellm(interpreter), PORTKEY

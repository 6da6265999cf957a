"""The gateways that Trilogue is compared with.

Each runs as one worker on loopback, without a database, with its request log off, and with the settings that its
authors recommend for speed.
"""

from __future__ import annotations

from benchmarks.interpreter import Interpreter
from benchmarks.litellm import litellm
from benchmarks.nginx import NGINX
from benchmarks.peer import Peer
from benchmarks.portkey import PORTKEY

NAMES = ("nginx", "LiteLLM", "Portkey")


def peers(interpreter: Interpreter) -> tuple[Peer, ...]:
    """Return all of them, in the order of `NAMES`. Those in Python run under this interpreter."""
    return NGINX, litellm(interpreter), PORTKEY

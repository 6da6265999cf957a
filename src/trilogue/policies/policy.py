"""The interface of policies: subclass `Policy`, say what you want to see, and return verdicts.

    class NoShell(Policy):
        calls = True

        def on_block(self, block, context):
            return Drop(reason="no shell") if call_of(block).name == "bash" else PASS

Hooks are plain or `async` methods. One instance serves all requests, so it keeps what belongs to one request in
`context.notes`. A hook that raises, is too slow or returns anything but a verdict ends as `on_error` says: `closed`
stops the response with words, `open` lets the block pass.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct, field

from trilogue.model import Block, Protocol, Request, Stop, Usage
from trilogue.policies.scan import Scan
from trilogue.policies.verdicts import PASS, Record

Interest = Literal["flow", "whole"] | None
"""`flow`: `on_match` sees what `scan` finds while the text goes on. `whole`: `on_block` sees the complete block."""


class PolicySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that every policy has. `timeout` is in seconds and applies to hooks that wait for something."""

    name: str = ""
    on_error: Literal["closed", "open"] = "closed"
    timeout: Annotated[float, Meta(gt=0)] = 10.0


class Context(Struct, eq=False, kw_only=True):
    """What a policy may see apart from the block: names, the request, and the blocks before. Never an upstream key.

    `key`, `route`, `model`: the names of the client key, the route and the model that the client asked for. `internal`:
    the request was made by a policy. `blocks`: the complete blocks of the response that have gone on. `notes`: whatever
    policies keep for later hooks of the same request.
    """

    request: Request | None = None
    client: Protocol | None = None
    key: str = ""
    route: str = ""
    model: str = ""
    internal: bool = False
    blocks: list[Block] = field(default_factory=list)
    notes: dict[object, Any] = field(default_factory=dict)


class Outcome(Struct, frozen=True, kw_only=True):
    """How a response ended. `result`: complete, stopped (by a policy), failed, or cut (the client or driver left)."""

    result: Literal["complete", "stopped", "failed", "cut"]
    stop: Stop | None = None
    usage: Usage | None = None
    records: tuple[Record, ...] = ()


class Policy:
    """One policy with its settings. Every hook is optional."""

    Settings: ClassVar[type[PolicySettings]] = PolicySettings
    secrets: ClassVar[tuple[str, ...]] = ()
    """settings that may be written as `env:NAME` or `file:path` in a configuration"""
    _default_name: ClassVar[str] = ""
    """the name in records if the settings have none; by default, and in subclasses, that of the class"""
    internal: ClassVar[bool] = False
    """whether it also applies to requests that policies make themselves"""

    text: Interest = None
    """interest in text and refusals"""
    reasoning: Interest = None
    calls: bool = False
    """interest in tool calls that the client runs; they are always complete"""
    others: bool = False
    """interest in all other blocks: hosted calls, their results, images, native blocks"""
    find: Scan | None = None
    """for the interest `flow`: what to find"""
    blocking: bool = False
    """whether hooks may take long without being `async`; the driver then calls them in a thread"""

    def __init__(self, settings: PolicySettings | None = None) -> None:
        settings = settings or self.Settings()
        self.name = settings.name or vars(type(self)).get("_default_name") or type(self).__name__
        self.on_error = settings.on_error
        self.timeout = settings.timeout

    def on_request(self, request: Request, context: Context) -> object:
        """Return PASS, `Rewrite(request)`, `StopWith(words)` or `Ask`, before the request goes out."""
        return PASS

    def on_block(self, block: Block, context: Context) -> object:
        """Return PASS, `Rewrite`, `Replace`, `Drop`, `StopWith` or `Ask` for a complete block."""
        return PASS

    def on_match(self, match: re.Match[str], context: Context) -> object:
        """Return the text to put in place of a match, PASS to leave it, or `StopWith` to end the response before it."""
        return PASS

    def scan(self, block: Block, context: Context) -> Scan | None:
        """Return what to find in a block that flows, or None to let it flow untouched."""
        return self.find

    def on_end(self, outcome: Outcome, context: Context) -> object:
        """Take note of the end of the response. What it returns is ignored unless it is awaitable."""
        return PASS

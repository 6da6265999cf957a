"""The policy `approve`: holds a tool call until a person has said yes or no.

It returns an `ApprovalQuestion`, and the driver shows it and resolves the run with True or False.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Literal

from msgspec import Meta, Struct

from trilogue.model import Block
from trilogue.policies.calls import call_of
from trilogue.policies.checks import Trouble
from trilogue.policies.policy import Context, Policy, PolicySettings
from trilogue.policies.shipped.action import ActionSettings, forbid
from trilogue.policies.verdicts import PASS, Ask


class ApprovalQuestion(Struct, frozen=True, kw_only=True):
    """A question for a person: may this call go on? Resolve the run with True or False. Do not log `arguments`."""

    tool: str
    arguments: str
    key: str
    route: str
    model: str


class ApproveSettings(ActionSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of `approve`. `tools`: names of the tools that need approval. `timeout`: how long to wait, in seconds.

    Without a decision in time, `on_error` applies: the response is stopped unless it says `open`.
    """

    tools: tuple[str, ...] = ("*",)
    timeout: Annotated[float, Meta(gt=0)] = 300.0
    instead: Literal["text", "refusal", "drop", "stop"] = "text"


class Approve(Policy):
    """Asks before some tools are called."""

    Settings = ApproveSettings
    calls = True

    def __init__(self, settings: PolicySettings | None = None) -> None:
        chosen = settings if isinstance(settings, ApproveSettings) else ApproveSettings()
        super().__init__(chosen)
        self._settings = chosen

    def on_block(self, block: Block, context: Context) -> object:
        """Ask about a call of one of the tools."""
        call = call_of(block)
        wanted = [pattern for pattern in self._settings.tools if call and fnmatchcase(call.name, pattern)]
        if call is None or not wanted:
            return PASS
        question = ApprovalQuestion(
            tool=call.name, arguments=call.text, key=context.key, route=context.route, model=context.model
        )
        return Ask(question, lambda answer: self._read(answer, call.name))

    def _read(self, answer: object, name: str) -> object:
        if not isinstance(answer, bool):
            return Trouble("got an answer that is neither yes nor no")
        return PASS if answer else forbid(self._settings, f"The call of {name}", "it was not approved")

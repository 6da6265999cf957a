"""The policy `limits`: size and number of tool calls, calls that repeat, and tokens."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from trilogue.base.json_text import dump_text
from trilogue.model import Block, Request, Role, Sampling, ToolCall
from trilogue.policies.calls import call_of, is_client_call
from trilogue.policies.policy import Context, Policy, PolicySettings
from trilogue.policies.shipped.action import ActionSettings, forbid
from trilogue.policies.texts import map_request
from trilogue.policies.verdicts import PASS, Rewrite, StopWith
from trilogue.protocols.endpoint import estimate_text

Limit = Annotated[int, Meta(ge=1)] | None


class LimitsSettings(ActionSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of `limits`. Every limit is off unless it is set.

    `argument_characters`: of one call. `calls`: per response. `repeats`: how often the same call with the same
    arguments may occur in a row. `input_tokens`: an estimate of the request. `output_tokens`: what a request may ask
    for.
    """

    argument_characters: Limit = None
    calls: Limit = None
    repeats: Limit = None
    input_tokens: Limit = None
    output_tokens: Limit = None


class Limits(Policy):
    """Keeps calls and tokens within limits."""

    Settings = LimitsSettings
    _default_name = "Limits"
    calls = True

    def __init__(self, settings: PolicySettings | None = None) -> None:
        chosen = settings if isinstance(settings, LimitsSettings) else LimitsSettings()
        super().__init__(chosen)
        self._settings = chosen
        self.calls = any([chosen.argument_characters, chosen.calls, chosen.repeats])

    def on_request(self, request: Request, context: Context) -> object:
        """Refuse a request that is too long, and lower the output limit of one that asks for too much."""
        chosen = self._settings
        if chosen.input_tokens is not None and _tokens(request) > chosen.input_tokens:
            reason = f"the request has more than {chosen.input_tokens} tokens"
            return StopWith(f"The request was refused by a policy: {reason}.", reason=reason)
        most = chosen.output_tokens
        if most is None or (request.sampling.max_tokens or most + 1) <= most:
            return PASS
        sampling: Sampling = replace(request.sampling, max_tokens=most)
        return Rewrite(replace(request, sampling=sampling), reason=f"output limited to {most} tokens")

    def on_block(self, block: Block, context: Context) -> object:
        """Judge one call by its size, its number and the calls before it."""
        call = call_of(block)
        if call is None:
            return PASS
        chosen = self._settings
        reason = ""
        if chosen.argument_characters and len(call.text) > chosen.argument_characters:
            reason = f"the arguments have more than {chosen.argument_characters} characters"
        elif chosen.calls and self._called(context) >= chosen.calls:
            reason = f"the response has more than {chosen.calls} calls"
        elif chosen.repeats and _times_before(block, context) >= chosen.repeats:
            reason = f"the same call was made {chosen.repeats} times in a row"
        return forbid(chosen, f"The call of {call.name}", reason) if reason else PASS

    def _called(self, context: Context) -> int:
        return len([block for block in context.blocks if is_client_call(block)])


def _tokens(request: Request) -> int:
    lengths: list[int] = []

    def measure(text: str) -> str:
        lengths.append(len(text.encode("utf-8", "replace")))
        return text

    map_request(request, measure)
    return estimate_text(sum(lengths))


def _signature(block: Block) -> tuple[str, str] | None:
    """Return what makes two calls the same: the name, and the arguments whatever their spelling."""
    call = call_of(block)
    if call is None:
        return None
    parsed = call.parsed
    if parsed is not None and isinstance(block, ToolCall):
        return call.name, dump_text(dict(sorted(parsed.items())))
    return call.name, call.text


def _times_before(block: Block, context: Context) -> int:
    """Return how many calls just before this one were the same, in the response and then in the history."""
    history = [
        earlier
        for turn in (context.request.turns if context.request else ())
        if turn.role is Role.ASSISTANT
        for earlier in turn.blocks
    ]
    wanted = _signature(block)
    times = 0
    for earlier in reversed([*history, *context.blocks]):
        if not is_client_call(earlier):
            continue
        if _signature(earlier) != wanted:
            break
        times += 1
    return times

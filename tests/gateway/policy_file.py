"""Policies for tests, which a gateway loads from this file: some work, some misbehave."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from tests.timing import pass_time, pause_for
from trilogue.model import Block, Request, Role, Text, Turn
from trilogue.policies import PASS, Ask, Context, Drop, Policy, Rewrite, StopWith, call_of
from trilogue.policies.shipped.judge import JudgeQuestion


class Slow(Policy):
    """Takes its time for every call, and then lets it pass."""

    calls = True

    async def on_block(self, block: Block, context: Context) -> object:
        await pause_for(0.6)
        return PASS


class Blocking(Policy):
    """Does the same in a thread."""

    calls = True
    blocking = True

    def on_block(self, block: Block, context: Context) -> object:
        pass_time(0.3)
        return Drop(reason="blocked")


class Hanging(Policy):
    """Never decides, and ignores that it is cancelled."""

    calls = True

    async def on_block(self, block: Block, context: Context) -> object:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue


class Raising(Policy):
    """Raises an exception whose message has the arguments of the call."""

    calls = True

    def on_block(self, block: Block, context: Context) -> object:
        call = call_of(block)
        raise RuntimeError(call.text if call else "")


class Leaving(Policy):
    """Tries to end the process."""

    calls = True

    async def on_block(self, block: Block, context: Context) -> object:
        raise SystemExit(3)


class Flooding(Policy):
    """Returns far too much."""

    calls = True

    def on_block(self, block: Block, context: Context) -> object:
        return StopWith("x" * 2_000_000)


class Nonsense(Policy):
    """Returns something that is no verdict."""

    calls = True

    def on_block(self, block: Block, context: Context) -> object:
        return {"verdict": "maybe"}


class NoWeather(Policy):
    """Refuses requests about the weather."""

    def on_request(self, request: Request, context: Context) -> object:
        texts = [block.text for turn in request.turns for block in turn.blocks if isinstance(block, Text)]
        text = " ".join(texts)
        return StopWith("No weather here.", reason="weather") if "weather" in text else PASS


class Curious(Policy):
    """Wants to see the requests of other policies too, asks about them, and is let down."""

    internal = True

    def on_request(self, request: Request, context: Context) -> object:
        if not context.internal:
            return PASS
        question = JudgeQuestion(model="chat/score-0", prompt="And this one?", max_tokens=1)
        return Ask(question, lambda _: PASS)


class Mentioning(Policy):
    """Also applies to requests of other policies: adds a word to their prompts."""

    internal = True

    def on_request(self, request: Request, context: Context) -> object:
        turns = (*request.turns, Turn(role=Role.USER, blocks=(Text(text=f"internal: {context.internal}"),)))
        return Rewrite(replace(request, turns=turns))

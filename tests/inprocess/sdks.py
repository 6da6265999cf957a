"""The official clients on HTTP clients of ours: what they get is recorded, and nothing is retried."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Unpack

import anthropic
import httpx2
import openai

import trilogue
from tests.gateway.conversations import CONVERSATIONS, NOTHING, Conversation, Wish
from tests.gateway.pairs import Pair
from tests.gateway.recorder import Recorder
from tests.scripted.server import KEY, ScriptedUpstream
from trilogue import HttpSettings, Tally

SDK_KEY = "sdk-key-canary-7d21"
"""the key that the SDKs were given, which no upstream may see"""


@dataclass
class InProcess:
    """The SDKs on one HTTP client."""

    http: httpx2.Client
    recorder: Recorder
    tally: Tally

    @cached_property
    def openai(self) -> openai.OpenAI:
        return openai.OpenAI(api_key=SDK_KEY, http_client=self.http, max_retries=0)

    @cached_property
    def anthropic(self) -> anthropic.Anthropic:
        return anthropic.Anthropic(api_key=SDK_KEY, http_client=self.http, max_retries=0)


class Sdks:
    """Makes clients for the scripted upstream, which are closed at the end of the test."""

    def __init__(self, up: ScriptedUpstream, stack: ExitStack) -> None:
        self.up = up
        self._stack = stack

    def http(self, name: str, **settings: Unpack[HttpSettings]) -> httpx2.Client:
        """An HTTP client of ours."""
        given: HttpSettings = {"base_url": self.up.url, "api_key": KEY, **settings}
        return self._stack.enter_context(trilogue.http_client(name, **given))

    def of(self, pair: Pair, scenario: str) -> InProcess:
        """The SDKs with a model of the scripted upstream."""
        tally = Tally()
        ours = self.http(f"{pair.upstream.short}/{scenario}", protocol=pair.upstream, observe=tally)
        recorder = Recorder(ours._transport)
        return InProcess(httpx2.Client(transport=recorder, timeout=20), recorder, tally)

    def talk(self, pair: Pair, scenario: str, wish: Wish = NOTHING) -> tuple[Conversation, InProcess]:
        """A conversation of a pair with a scenario of the upstream."""
        clients = self.of(pair, scenario)
        return CONVERSATIONS[pair.client](clients, scenario, stream=pair.stream, wish=wish), clients

"""Generate valid client requests in each protocol, the same for the same seed, and every setting alone.

Valid means that the request has the form of the protocol and that some server would accept it. What a certain model
refuses is included, because fitting requests to the model is the work of the gateway.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from tests.vendors import client_chat, client_messages, client_responses
from tests.vendors.client_draw import JSON, Draw, Protocol, Settings, unshared

PROTOCOLS: tuple[Protocol, ...] = ("chat", "messages", "responses")
SETTINGS: dict[Protocol, Settings] = {
    "chat": client_chat.SETTINGS,
    "messages": client_messages.SETTINGS,
    "responses": client_responses.SETTINGS,
}
SCENES: dict[Protocol, dict[str, tuple[JSON, ...]]] = {
    "chat": client_chat.SCENES,
    "messages": client_messages.SCENES,
    "responses": client_responses.SCENES,
}
_HELLO: dict[Protocol, JSON] = {
    "chat": client_chat.HELLO,
    "messages": client_messages.HELLO,
    "responses": client_responses.HELLO,
}
_GENERATE: dict[Protocol, Callable[[Draw], JSON]] = {
    "chat": client_chat.generate,
    "messages": client_messages.generate,
    "responses": client_responses.generate,
}


def client_requests(protocol: Protocol, seed: int, count: int) -> Iterator[JSON]:
    """Generate bodies; the n-th body of a seed is the same whatever the count."""
    for number in range(count):
        yield unshared(_GENERATE[protocol](Draw(f"{protocol} {seed} {number}")))


def single_settings(protocol: Protocol) -> Iterator[tuple[str, JSON]]:
    """Generate a plain hello, then a hello with one setting, for every value of every setting."""
    yield "hello", unshared(_HELLO[protocol])
    groups = {name: values for name, (_, values) in SETTINGS[protocol].items()} | SCENES[protocol]
    for group, values in groups.items():
        for number, value in enumerate(values):
            yield f"{group} {number} {_short(value)}", unshared(_HELLO[protocol] | _worded(value))


def _worded(value: JSON) -> JSON:
    """Add the word JSON if the request uses JSON mode, because servers refuse the mode without it."""
    text = json.dumps(value)
    if '"json_object"' not in text:
        return value
    turn = {"role": "user", "content": "Hello, in JSON"}
    return value | ({"messages": [turn]} if "response_format" in value else {"input": [turn]})


def _short(value: JSON) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= 60 else text[:59] + "…"

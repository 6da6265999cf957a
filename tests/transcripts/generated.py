"""Cases: responses of a model, passed through, translated, renamed, and failing in all ways."""

from __future__ import annotations

from itertools import product

from tests.scripted.http import Do, chunk, stream_head
from tests.transcripts.gateway import Stage
from tests.transcripts.group import (
    ADMIN,
    KEYS,
    ONE_ACCOUNT,
    Group,
    Run,
    ask,
    asking,
    provider,
    providers,
    server,
    word,
)
from trilogue import Protocol

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
ALL = tuple(Protocol)
PLAIN = KEYS + ADMIN + server() + providers()
WAYS = tuple(product(ALL, ALL, (False, True)))


def _pairs() -> dict[str, Run]:
    cases: dict[str, Run] = {}
    for scenario, (client, upstream, stream) in product(("text", "reasoning-tools"), WAYS):
        name = f"{scenario} {client.short}-{upstream.short} {word(stream)}"
        cases[name] = ask(client, f"{upstream.short}/{scenario}", stream=stream, calls=scenario != "text")
    for number, (scenario, client) in enumerate(product(("refusal", "length", "empty", "search"), ALL)):
        upstream = ALL[(number + number // 3) % 3]
        name = f"{scenario} {client.short}-{upstream.short}"
        cases[name] = ask(client, f"{upstream.short}/{scenario}", stream=number % 2 == 1)
    for upstream in ALL:
        cases[f"stream without usage chat-{upstream.short}"] = ask(
            C, f"{upstream.short}/text", stream=True, stream_options=...
        )
    return cases


RENAMING = """\
aliases: {house: chat/text, den: messages/text, hut: responses/text, same: house}
routes:
  - {match: "^(any|some)-(.+)$", provider: chat, model: "$2"}
  - {match: "m-*", targets: [messages/text]}
default_provider: responses
"""


def _renamed() -> dict[str, Run]:
    cases: dict[str, Run] = {}
    for (client, alias), stream in product(((C, "house"), (M, "den"), (R, "hut")), (False, True)):
        cases[f"alias {client.short} passed through {word(stream)}"] = ask(client, alias, stream=stream)
        cases[f"alias {client.short} translated {word(stream)}"] = ask(client, "same", stream=stream)
    for name, client, model in (
        ("route by expression", C, "any-text"),
        ("route by expression translated", M, "some-text"),
        ("route by glob", M, "m-anything"),
        ("default provider", R, "text"),
        ("provider that is not there", C, "nowhere/text"),
        ("no model", C, ""),
    ):
        cases[name] = ask(client, model)
    return cases


ERRORS = ("error-400", "error-400-context", "error-403-cost", "error-404", "error-429", "error-500", "error-529")
FAULTS = (
    "stream-error-first",
    "stream-error-mid",
    "truncate-mid",
    "truncate-clean",
    "reset-before-headers",
    "reset-mid",
    "malformed",
    "html-200",
)


def _failures() -> dict[str, Run]:
    cases: dict[str, Run] = {}
    for number, (error, client) in enumerate(product(ERRORS, ALL)):
        upstream = ALL[(number + number // 3) % 3]
        stream = number % 2 == 1
        name = f"{error} {client.short}-{upstream.short} {word(stream)}"
        # The upstream's cooldown for a 429 is short: its end must not fall into another case.
        place = f"{upstream.short}-429" if error == "error-429" else upstream.short
        cases[name] = ask(client, f"{place}/{error}", stream=stream)
    for number, (fault, same) in enumerate(product(FAULTS, (True, False))):
        client = ALL[number % 3]
        upstream = client if same else ALL[(number + 1 + number // 6) % 3]
        for stream in (False, True):
            name = f"{fault} {client.short}-{upstream.short} {word(stream)}"
            cases[name] = ask(client, f"{upstream.short}/{fault}", stream=stream)
    cases["client disconnects from a stream"] = _leaving
    return cases


def _leaving(stage: Stage) -> None:
    """The upstream has sent a part, and goes on only when nobody listens any more."""
    event = (
        b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":'
        b'[{"index":0,"delta":{"content":"so far"}}]}\n\n'
    )
    stage.up.say(stream_head([]), chunk(event), Do.HANG)
    stage.leave(asking(C, "chat/text", stream=True), b"so far")


def _slow(name: str, protocol: Protocol, limits: str, more: str = ONE_ACCOUNT) -> str:
    return provider(name, protocol, f"timeouts: {{{limits}}}, {more}")


TWO = "accounts: [{name: a, key: key-of-a, priority: 1}, {name: b, key: key-of-b, priority: 2}]"
LIMITED = "".join(provider(f"{protocol.short}-429", protocol) for protocol in Protocol)
SLOW = (
    KEYS
    + ADMIN
    + server()
    + "providers:\n"
    + _slow("head", C, "first_byte: 0.5")
    + _slow("first", M, "first_event: 0.5")
    + _slow("next", R, "between_events: 1.5")
    + _slow("all", C, "total: 1.5")
    + _slow("other", C, "first_byte: 1.5", TWO)
)


def _then(stage: Stage) -> None:
    stage.up.by_key = {"key-of-a": "hang-before-headers", "key-of-b": "text"}
    stage.send(asking(C, "other/text", stream=True))


GROUPS = (
    Group("pairs", PLAIN, _pairs()),
    Group("renamed", PLAIN + RENAMING, _renamed()),
    Group("failures", PLAIN + LIMITED + "pool: {retry_budget: {floor: 1000}}\n", _failures()),
    Group(
        "timeouts",
        SLOW,
        {
            "headers, whole": ask(C, "head/hang-before-headers"),
            "headers, stream": ask(M, "head/hang-before-headers", stream=True),
            "first event": ask(M, "first/hang-after-headers", stream=True),
            "first event, translated": ask(R, "first/hang-after-headers", stream=True),
            "next event": ask(R, "next/hang-mid", stream=True),
            "next event, translated": ask(C, "next/hang-mid", stream=True),
            "all of it": ask(C, "all/hang-after-headers"),
            "headers, then the next account": _then,
        },
        {"key-of-a": "", "key-of-b": ""},
    ),
)

"""Cases: several accounts and providers, limits and budgets of client keys."""

from __future__ import annotations

from itertools import product

from tests.transcripts.gateway import Stage
from tests.transcripts.group import ADMIN, KEYS, Group, Run, ask, asking, call, provider, providers, said, server, word
from trilogue import Protocol

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
TWO = "accounts: [{name: a, key: key-of-a, priority: 1}, {name: b, key: key-of-b, priority: 2}]"
ACCOUNTS = (
    KEYS
    + ADMIN
    + server()
    + providers(TWO)
    + "".join(provider(f"{protocol.short}-429", protocol, TWO) for protocol in Protocol)
    + provider("spare", M, "accounts: [{name: c, key: key-of-c}]")
    + provider("picky", C, "accounts: [{name: d, key: key-of-d}]")
    + """\
pool:
  retry_budget: {floor: 1000}
  rules: [{text: "exceeds the limit", action: client}]
routes:
  - {match: chain, targets: [chat/text, spare/text]}
  - {match: thin, targets: [spare/text, picky/text]}
  - {match: backwards, targets: [messages/text, picky/text]}
"""
)
UPSTREAM_KEYS = {f"key-of-{name}": "" for name in "abcd"}
FAILURES = ("error-401", "error-402", "error-404", "error-429", "error-500", "error-529", "reset-before-headers")
IN_A_STREAM = ("stream-error-first", "html-200", "truncate-clean")


def _meeting(name: str, client: Protocol, model: str, stream: bool = False, **scenarios: str) -> Run:
    """Return a case in which these accounts meet these scenarios; all others respond.

    Each case is a conversation of its own, which no account has had before.
    """
    data = asking(client, model, stream=stream, **said(client, name))

    def run(stage: Stage) -> None:
        met = {f"key-of-{account}": scenario for account, scenario in scenarios.items()}
        stage.up.by_key = {**dict.fromkeys(UPSTREAM_KEYS, "text"), **met}
        stage.send(data)

    return run


def _place(upstream: Protocol, scenario: str) -> str:
    """Return a provider. The upstream's cooldown for a 429 is short: its end must not fall into another case."""
    return f"{upstream.short}-429" if scenario == "error-429" else upstream.short


def _sticky(stage: Stage) -> None:
    """A conversation stays with the account that has responded, also when the first one responds again."""
    _meeting("sticky", M, "chat/any", a="error-500")(stage)
    _meeting("sticky", M, "chat/any")(stage)


def _accounts() -> dict[str, Run]:
    cases: dict[str, Run] = {}
    for number, (scenario, same) in enumerate(product((*FAILURES, *IN_A_STREAM), (True, False))):
        client = (C, M, R)[number % 3]
        upstream = client if same else (M, R, C)[number % 3]
        stream = scenario in IN_A_STREAM or number % 4 < 2
        name = f"{scenario}, then the next account {client.short}-{upstream.short} {word(stream)}"
        cases[name] = _meeting(name, client, f"{_place(upstream, scenario)}/any", stream, a=scenario)
    for client, scenario in product((C, M, R), ("error-401", "error-429", "error-500")):
        name = f"{scenario} of every account {client.short}"
        cases[name] = _meeting(name, client, f"{_place(client, scenario)}/any", a=scenario, b=scenario)
    for model, client, stream in product(("chain", "backwards"), (C, M, R), (False, True)):
        name = f"{model}: another provider {client.short} {word(stream)}"
        cases[name] = _meeting(name, client, model, stream, a="error-500", b="error-500")
    cases["a rule leaves an error to the client"] = _meeting("rule", C, "chat/any", a="error-403-cost")
    cases["no provider of a chain"] = _meeting("none", C, "thin", c="error-529", d="error-500")
    cases["a conversation stays with its account"] = _sticky
    return cases


LIMITED = """\
admin: {key: env:ADMIN_KEY, port: 0}
keys:
  - {key: env:TRILOGUE_KEY, name: laptop}
  - {key: key-of-once, name: once, owner: team, limits: {requests_per_day: 1}}
  - {key: key-of-tokens, name: tokens, limits: {tokens_per_day: 200}}
  - {key: key-of-rich, name: rich, budget: {total: 1000}}
  - {key: key-of-poor, name: poor, budget: {total: 0.000001}}
  - {key: key-of-unpriced, name: unpriced, budget: {total: 10}}
  - {key: key-of-few, name: few, models: ["chat/*"], providers: [chat]}
  - {key: key-of-strict, name: strict, mode: strict}
  - {key: key-of-past, name: past, expires: "2026-01-31"}
owners: {team: {limits: {requests_per_day: 100}}}
"""
PRICED = "accounts: [{name: only, key: up-key}], prices: {text: {input: 2, cached: 0.5, output: 8}}"


def _limited() -> dict[str, Run]:
    cases: dict[str, Run] = {
        "first request of a key": ask(C, "chat/text", key="key-of-once"),
        "one too many, Chat": ask(C, "chat/text", key="key-of-once"),
        "one too many, Messages": ask(M, "chat/text", key="key-of-once", stream=True),
        "one too many, Responses": ask(R, "chat/text", key="key-of-once"),
        "limit on tokens": ask(M, "messages/text", key="key-of-tokens", max_tokens=20),
        "limit on tokens, too many": ask(M, "messages/text", key="key-of-tokens", max_tokens=1000),
        "budget of an unknown price": ask(C, "chat/other", key="key-of-unpriced"),
        "strict": ask(C, "messages/text", key="key-of-strict", seed=1),
        "declared": ask(C, "messages/text", seed=1),
        "model that a key may not use": ask(C, "messages/text", key="key-of-few"),
        "models of a key": call("GET", "/v1/models", key="key-of-few"),
        "key that has expired": ask(C, "chat/text", key="key-of-past"),
        "key that nobody knows": ask(M, "chat/text", key="key-of-nobody"),
    }
    for client, stream in product((C, M, R), (False, True)):
        name = f"{client.short} {word(stream)}"
        cases[f"within a budget {name}"] = ask(client, "chat/text", key="key-of-rich", stream=stream)
        cases[f"beyond a budget {name}"] = ask(client, "chat/text", key="key-of-poor", stream=stream)
    cases["what a key has left"] = call("GET", "/v1/usage", key="key-of-rich")
    return cases


GROUPS = (
    Group("accounts", ACCOUNTS, _accounts(), UPSTREAM_KEYS),
    Group("limits", LIMITED + server() + providers(PRICED), _limited()),
)

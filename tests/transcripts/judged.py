"""Cases: requests and responses that policies judge: kept, changed, stopped, asked about."""

from __future__ import annotations

from itertools import product

from tests.timing import eventually
from tests.transcripts.gateway import PATIENCE, Stage
from tests.transcripts.group import ADMIN, Group, Run, ask, asking, providers, said, server, word
from trilogue import Protocol

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
POLICIES = {
    "kept": "{use: tools, deny: [never]}",
    "redacted": "{use: redact, kinds: [EMAIL]}",
    "phrases": "{use: block_phrases, phrases: [scripted upstream], words: Not this.}",
    "rewritten": "{use: rewrite, rules: [{find: Hello, replace: Goodbye}]}",
    "dropped": "{use: tools, deny: [get_weather]}",
    "stopped": "{use: tools, deny: [get_weather], instead: stop, words: Stopped.}",
    "forced": "{use: force_model, model: messages/text}",
    "injected": "{use: inject_system, text: Be kind.}",
    "judged": "{use: judge, model: messages/score-0.1, cache: 0}",
    "refused": "{use: judge, model: chat/score-0.9, cache: 0}",
    "undecided": "{use: judge, model: chat/error-400, cache: 0}",
    "open": "{use: judge, model: chat/error-400, cache: 0, on_error: open}",
    "person": "{use: approve, timeout: 600}",
}
CONFIG = (
    ADMIN
    + server()
    + "keys:\n"
    + "".join(f"  - {{key: key-of-{name}, name: {name}, policies: [{name}]}}\n" for name in POLICIES)
    + "policies:\n"
    + "".join(f"  {name}: {settings}\n" for name, settings in POLICIES.items())
    + providers()
)
MODELS = {
    "redacted": "tools",
    "phrases": "text",
    "rewritten": "text",
    "forced": "text",
    "injected": "text",
}
"""for all others, a call of a tool"""


def _decided(decision: str, client: Protocol, upstream: Protocol, stream: bool) -> Run:
    def run(stage: Stage) -> None:
        data = asking(client, f"{upstream.short}/tools", stream=stream, calls=True, key="key-of-person")
        asked = stage.at_once(data)
        eventually(lambda: stage.admin("GET", "/approvals", show=False).json["approvals"], PATIENCE)
        (waiting,) = stage.admin("GET", "/approvals").json["approvals"]
        stage.admin("POST", f"/approvals/{waiting['id']}", {"decision": decision, "by": "zoe"})
        asked.answer()

    return run


def _cases() -> dict[str, Run]:
    cases: dict[str, Run] = {}
    for number, (policy, same, stream) in enumerate(product(POLICIES, (True, False), (False, True))):
        if policy == "person":
            continue
        client = (C, M, R)[number // 2 % 3]
        upstream = client if same else (M, R, C)[(number // 2 + number // 4) % 3]
        scenario = MODELS.get(policy, "tools")
        name = f"{policy} {client.short}-{upstream.short} {word(stream)}"
        more = {} if policy != "redacted" else said(client, "Write to jane@example.org.")
        cases[name] = ask(
            client,
            f"{upstream.short}/{scenario}",
            stream=stream,
            calls=scenario == "tools",
            key=f"key-of-{policy}",
            **more,
        )
    cases["approved whole"] = _decided("yes", C, M, False)
    cases["approved stream"] = _decided("yes", R, R, True)
    cases["not approved whole"] = _decided("no", M, M, False)
    cases["not approved stream"] = _decided("no", M, C, True)
    return cases


GROUPS = (Group("policies", CONFIG, _cases()),)

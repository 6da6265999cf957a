"""Write a state folder that has something of every kind, with what must be found in it later.

Everything is made as users make it: by commands and requests. Each function makes one kind and returns what is known.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2

from tests.earlier.folders import HERE, keep
from tests.earlier.place import CI_KEY, CONFIG, Place, Running
from tests.scripted import thread
from tests.scripted.http import json_answer
from tests.scripted.server import KEY as UPSTREAM_KEY
from tests.scripted.server import ScriptedUpstream
from tests.timing import eventually

Known = dict[str, Any]
QUESTION = "Keep this question."
FOLLOW_UP = "And this one after it."
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
MOST_REQUESTS = 50
MINUTE = 60


def write(version: str) -> Path:
    """Write the folder of this version, which is that of the sources. Return where it is."""
    with TemporaryDirectory() as home, thread.running() as up:
        place = Place(Path(home), CONFIG.replace("UPSTREAM", up.url))
        place.command("accounts", "add", "house", stdin=UPSTREAM_KEY, config=False)
        known: Known = {"version": version, "keys": {"ci": CI_KEY, **made_keys(place)}}
        with place.gateway() as gateway:
            for make in MAKERS:
                known |= make(place, gateway, known["keys"])
            known |= owned(up, gateway, known["keys"])
        known |= killed(place, known["keys"])
        known["usage"] = place.lines("usage", "--by", "key", "--since", "all")
        known["audit"] = [(line["what"], line["subject"]) for line in place.lines("audit")]
        keep(place.state, CONFIG, known, HERE / version)
    return HERE / version


def made_keys(place: Place) -> Known:
    """Make client keys at run time, one of them with a budget, one with a limit for each minute."""
    options = {"laptop": "", "lost": "", "spender": "budget.total=0.0023", "hasty": "limits.requests_per_minute=2"}
    found = {}
    for name, setting in options.items():
        (line,) = place.lines("keys", "create", name, *(["--set", setting] if setting else []))
        found[name] = line["key"]
    return found


def revoked(place: Place, gateway: Running, keys: Known) -> Known:
    """Revoke a key that has worked."""
    ok(gateway.ask(keys["lost"], "/v1/models"))
    place.command("keys", "revoke", "lost")
    eventually(lambda: gateway.ask(keys["lost"], "/v1/models").status_code == 401)
    return {}


def stored(_: Place, gateway: Running, keys: Known) -> Known:
    """Store a response and one that continues it."""
    asked = {"model": "messages/text", "input": QUESTION, "store": True}
    first = ok(gateway.ask(keys["laptop"], "/v1/responses", asked))
    more = {**asked, "input": FOLLOW_UP, "previous_response_id": first["id"]}
    return {"response": first, "continued": ok(gateway.ask(keys["laptop"], "/v1/responses", more))}


def conversed(_: Place, gateway: Running, keys: Known) -> Known:
    """Store a conversation with a response in it."""
    made = ok(gateway.ask(keys["laptop"], "/v1/conversations", {"metadata": {"topic": "upgrade"}}))
    asked = {"model": "messages/text", "input": QUESTION, "conversation": made["id"]}
    ok(gateway.ask(keys["laptop"], "/v1/responses", asked))
    items = ok(gateway.ask(keys["laptop"], f"/v1/conversations/{made['id']}/items"))
    return {"conversation": made, "items": items["data"]}


def in_the_background(_: Place, gateway: Running, keys: Known) -> Known:
    """Store a response that was made in the background."""
    asked = {"model": "messages/text", "input": QUESTION, "background": True}
    made = ok(gateway.ask(keys["laptop"], "/v1/responses", asked))

    def ended() -> Known | None:
        found = ok(gateway.ask(keys["laptop"], f"/v1/responses/{made['id']}"))
        return found if found["status"] == "completed" else None

    return {"background": eventually(ended)}


def sealed(_: Place, gateway: Running, keys: Known) -> Known:
    """Return a response with reasoning that was sealed for a client of another protocol."""
    asked = {
        "model": "responses/reasoning",
        "max_tokens": 2000,
        "thinking": {"type": "adaptive"},
        "messages": [{"role": "user", "content": QUESTION}],
    }
    return {"sealed": ok(gateway.ask(keys["laptop"], "/v1/messages", asked))["content"]}


def remembered(_: Place, gateway: Running, keys: Known) -> Known:
    """Return the messages of a client that cannot send back the reasoning before a tool call."""
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    asked = {"model": "messages/reasoning-tools", "messages": messages, "tools": [TOOL], "reasoning_effort": "high"}
    made = ok(gateway.ask(keys["laptop"], "/v1/chat/completions", asked))["choices"][0]["message"]
    said = {"role": "assistant", "content": made.get("content"), "tool_calls": made["tool_calls"]}
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "18"} for call in made["tool_calls"]]
    return {"remembered": [*messages, said, *results]}


def captured(place: Place, gateway: Running, keys: Known) -> Known:
    """Capture a request."""
    ok(gateway.administer("/capture", {"requests": 1}))
    ok(chat(gateway, keys["ci"]))
    eventually(lambda: list((place.state / "captures").glob("*.jsonl")))
    (line,) = eventually(lambda: ok(gateway.administer("/captures"))["captures"])
    return {"capture": line}


def disabled(_: Place, gateway: Running, keys: Known) -> Known:
    """Disable an account."""
    ok(gateway.administer("/accounts/messages/two/disable", {}))
    return {}


def sessions(_: Place, gateway: Running, keys: Known) -> Known:
    """Return the cookies of two sessions of the console, of which the second has been ended."""
    found = []
    for _number in range(2):
        reply = gateway.browse("POST", "/console/session", body={"key": gateway.admin_key})
        ok(reply)
        found.append(next(iter(reply.cookies.values())))
    ok(gateway.browse("DELETE", "/console/session", found[1]))
    eventually(lambda: gateway.browse("GET", "/me", found[1]).status_code == 401)
    return {"session": found[0], "ended_session": found[1]}


def spent(_: Place, gateway: Running, keys: Known) -> Known:
    """Spend a budget, until it refuses a request."""
    ok(chat(gateway, keys["spender"]))
    replies = (chat(gateway, keys["spender"]) for _ in range(MOST_REQUESTS))
    refusal = next(reply for reply in replies if reply.status_code != 200)
    return {"refusal": refusal.json()["error"]["code"]}


MAKERS = (revoked, stored, conversed, in_the_background, sealed, remembered, captured, disabled, sessions, spent)


def owned(up: ScriptedUpstream, gateway: Running, keys: Known) -> Known:
    """Make an object that the upstream keeps, and of which the gateway knows whose it is."""
    up.say(json_answer(200, [], {"id": "batch_kept", "object": "batch"}))
    return {"object": ok(gateway.ask(keys["laptop"], "/v1/batches", {"endpoint": "/v1/responses"}))["id"]}


def killed(place: Place, keys: Known) -> Known:
    """Use all requests of a minute, and kill the gateway before they are in the table of usage.

    It begins with a minute of the clock, so that whoever reads the folder has the rest of the minute for it.
    """
    place.shift += MINUTE - (time.time() + place.shift) % MINUTE
    with place.gateway(end=signal.SIGKILL) as gateway:
        for _ in range(2):
            ok(chat(gateway, keys["hasty"]))
    return {"written": time.time() + place.shift}


def chat(gateway: Running, key: str) -> httpx2.Response:
    """Send a small request whose price is known."""
    asked = {"model": "chat/text", "max_tokens": 50, "messages": [{"role": "user", "content": QUESTION}]}
    return gateway.ask(key, "/v1/chat/completions", asked)


def ok(reply: httpx2.Response) -> Any:
    """Return the JSON of a response. Raise RuntimeError if it is an error."""
    if reply.status_code != 200:
        raise RuntimeError(f"{reply.request.url}: {reply.status_code} {reply.text}")
    return reply.json()

"""The policy `redact` on the way up: every string of a request that leaves is redacted, or the request is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.each import each
from trilogue.base.json_text import dump, parse_request
from trilogue.model import Ledger, Protocol, Request
from trilogue.policies import PolicyRun, judge_request, load_policies
from trilogue.policies.texts import has_repeated_names
from trilogue.protocols.codec import Target
from trilogue.protocols.registry import codec
from trilogue.vendors.profile import UNCHANGED

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
MAIL = "jane@example.org"
SCHEMA = {
    "type": "object",
    "description": f"ask {MAIL}",
    "properties": {"to": {"type": "string", "enum": [MAIL], "default": MAIL, "description": MAIL}},
}
ARGUMENTS = (
    f'{{"{MAIL}":1,"to":"{MAIL}","id":"{MAIL}","name":"{MAIL}","a":["{MAIL}",{{"b":"jane\\u0040example.org"}}]}}'
)
TWICE = f'{{"to":"{MAIL}","to":"x"}}'
CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": MAIL, "strange": {MAIL: [MAIL]}},
        {"role": "user", "content": [{"type": "text", "text": MAIL, "extra": MAIL}, {"type": "new", "words": MAIL}]},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": MAIL,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": ARGUMENTS}},
                {"id": "c2", "type": "function", "function": {"name": "f", "arguments": TWICE}},
                {"id": "c3", "type": "function", "function": {"name": "f", "arguments": f"not JSON {MAIL}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": MAIL},
        {"role": "tool", "tool_call_id": "c2", "content": "x"},
        {"role": "tool", "tool_call_id": "c3", "content": "x"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "description": MAIL, "parameters": SCHEMA}}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "s", "description": MAIL, "schema": SCHEMA}},
    "prediction": {"type": "content", "content": MAIL},
    "stop": [MAIL],
    "user": MAIL,
    "metadata": {"name": MAIL, MAIL: "x"},
    "prompt_cache_key": MAIL,
    "unknown": [{"deep": {MAIL: MAIL}}],
    "web_search_options": {"user_location": {"type": "approximate", "approximate": {"city": MAIL}}},
}
MESSAGES: dict[str, Any] = {
    "model": "m",
    "max_tokens": 10,
    "system": [{"type": "text", "text": MAIL}],
    "messages": [
        {
            "role": "user",
            "content": [
                {
                    "type": "document",
                    "title": MAIL,
                    "context": MAIL,
                    "source": {"type": "text", "media_type": "text/plain", "data": MAIL},
                }
            ],
        },
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {"to": MAIL, MAIL: 1}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": MAIL}]},
        {
            "role": "user",
            "content": [
                {"type": "search_result", "source": MAIL, "title": MAIL, "content": [{"type": "text", "text": MAIL}]}
            ],
        },
    ],
    "tools": [{"name": "f", "description": MAIL, "input_schema": SCHEMA}],
    "stop_sequences": [MAIL],
    "metadata": {"user_id": MAIL},
    "unknown": {MAIL: MAIL},
}
RESPONSES: dict[str, Any] = {
    "model": "m",
    "instructions": MAIL,
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": MAIL}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": MAIL}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": ARGUMENTS},
        {"type": "function_call_output", "call_id": "c1", "output": MAIL},
        {"type": "new_item", "words": MAIL},
    ],
    "tools": [{"type": "function", "name": "f", "description": MAIL, "parameters": SCHEMA}],
    "text": {"format": {"type": "json_schema", "name": "s", "schema": SCHEMA}},
    "prompt": {"id": "pmpt_1", "variables": {"name": MAIL, "more": {"type": "input_text", "text": MAIL}}},
    "metadata": {"who": MAIL},
    "user": MAIL,
    "safety_identifier": MAIL,
    "unknown": MAIL,
}


def judged(protocol: Protocol, body: dict[str, Any], **settings: Any) -> tuple[bytes | None, PolicyRun]:
    """Return the body that leaves, or None if the request is refused, and the run."""
    run = PolicyRun(load_policies([{"use": "redact", **settings}]))
    request = codec(protocol).decode_request(parse_request(json.dumps(body).encode()))
    changed = judge_request(run, request)
    return None if changed is None else encoded(protocol, changed), run


def encoded(protocol: Protocol, request: Request) -> bytes:
    """Return a request as it leaves in the client's protocol."""
    target = Target(protocol=protocol, model=request.model, profile=UNCHANGED)
    return dump(codec(protocol).encode_request(request, target, Ledger()))


@pytest.mark.parametrize(("protocol", "body"), [(C, CHAT), (M, MESSAGES), (R, RESPONSES)])
def test_every_string_is_redacted(protocol: Protocol, body: dict[str, Any]) -> None:
    """In texts, names of fields, schemas, settings and fields that nobody knows; and nothing else changes."""
    out, run = judged(protocol, body)
    assert out is not None
    assert MAIL not in out.decode()
    assert "jane" not in out.decode()
    assert [record.reason for record in run.records] == ["1 value redacted"]
    plain = encoded(protocol, codec(protocol).decode_request(parse_request(json.dumps(body).encode())))
    restored = out.decode().replace("<<EMAIL_1>>", MAIL)
    assert len(restored) <= len(plain) + 4
    assert json.loads(restored).keys() == json.loads(plain).keys()


@each(
    ("protocol", "change"),
    [
        (
            C,
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image_url", "image_url": {"url": f"https://x.test/?{MAIL}"}}],
                    }
                ]
            },
        ),
        (C, {"tools": [{"type": "function", "function": {"name": MAIL, "parameters": {}}}]}),
        (C, {"model": MAIL}),
        (
            M,
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image", "source": {"type": "url", "url": f"https://{MAIL}"}}],
                    }
                ]
            },
        ),
        (R, {"input": [{"type": "function_call_output", "call_id": MAIL, "output": "x"}]}),
        (R, {"previous_response_id": MAIL}),
    ],
)
def test_what_cannot_be_changed_is_refused(protocol: Protocol, change: dict[str, Any]) -> None:
    """Another id, name or address would mean something else."""
    bodies: dict[Protocol, dict[str, Any]] = {
        C: {"model": "m", "messages": [{"role": "user", "content": "x"}]},
        M: {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]},
        R: {"model": "m", "input": "x"},
    }
    out, run = judged(protocol, bodies[protocol] | change)
    assert out is None
    assert run.stopped is not None
    assert MAIL not in run.stopped.words
    assert judged(protocol, bodies[protocol])[0] is not None


def test_what_is_not_text_stays() -> None:
    """Bytes of images, and reasoning that its provider has signed."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "+14155550100AAAA"}}
    signed = {"type": "thinking", "thinking": MAIL, "signature": "SIG"}
    turns = [
        {"role": "user", "content": [image]},
        {"role": "assistant", "content": [signed, {"type": "text", "text": "x"}]},
    ]
    out, run = judged(M, {"model": "m", "max_tokens": 1, "messages": turns})
    assert out is not None
    assert run.records[0].verdict == "pass"


def test_fields_that_come_twice_are_noticed() -> None:
    """A body in which a policy has seen only the last of two fields does not leave as it is."""
    for text, repeated in (
        ('{"a": 1, "a": 2}', True),
        ('{"a": {"b": "x:y", "b" : "z"}}', True),
        ('{"a": "\\"b\\": 1", "b": [{"c": "d"}, {"c": "e"}]}', False),
        ("{}", False),
    ):
        assert has_repeated_names(text.encode(), parse_request(text.encode())) is repeated, text

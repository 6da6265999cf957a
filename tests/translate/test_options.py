"""What may be left out of a request because an upstream refuses it, and what never."""

from __future__ import annotations

from typing import Any

import pytest

from trilogue.model import Failure, FailureKind, Protocol
from trilogue.translate.learning.options import profile_fields, usable
from trilogue.translate.learning.refusals import read_refusal
from trilogue.translate.learning.remedies import Remedy

BODY: dict[str, Any] = {
    "model": "m",
    "instructions": "Be brief.",
    "system": "Be brief.",
    "previous_response_id": "resp_1",
    "conversation": "conv_1",
    "messages": [{"role": "user", "content": "Hi", "name": "alice"}],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d", "strict": True}}],
    "logprobs": True,
    "top_logprobs": 3,
    "n": 2,
    "store": True,
    "user": "alice",
    "metadata": {"customer_email": "a@example.com"},
    "temperature": 0.2,
}


@pytest.mark.parametrize(
    "path",
    [
        "instructions",
        "system",
        "previous_response_id",
        "conversation",
        "messages[].content",
        "tools",
        "tools[].function.description",
        "tools[].function.parameters",
        "logprobs",
        "top_logprobs",
        "n",
    ],
)
def test_what_a_client_asks_is_no_option(path: str) -> None:
    """Prompts, history, state, tools, and what is read in the response: without them it is another request."""
    assert usable(Remedy(path=path, action="drop"), BODY) is None
    text = f"Unknown parameter: '{path.replace('[]', '[0]')}'."
    failure = Failure(kind=FailureKind.INVALID_REQUEST, message=text, status=400, protocol=Protocol.RESPONSES)
    assert read_refusal(failure, BODY) == ()


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("temperature", "temperature"),
        ("reasoning_effort[xhigh]", "reasoning_effort[xhigh]"),
        ("tools[].function.strict", "tools[].function.strict"),
        ("messages[user].name", "messages[user].name"),
        ("some_extension", "some_extension"),
        # What clients write themselves is not remembered, and not logged.
        ("user[alice]", "user"),
        ("prompt_cache_key[tenant-42]", "prompt_cache_key"),
        ("metadata.customer_email", "metadata"),
        # Somebody asked to store: whoever forbids it must still be heard.
        ("store", "store[true]"),
    ],
)
def test_options_by_the_names_of_the_protocols(path: str, kept: str) -> None:
    """A path that is kept for weeks holds words of the protocols, never of a client."""
    remedy = usable(Remedy(path=path, action="drop"), BODY)
    assert remedy is not None
    assert remedy.path == kept


def test_values_that_say_nothing_may_go() -> None:
    """One choice, no probabilities, no tools."""
    for name, value in (("n", 1), ("logprobs", False), ("tools", [])):
        assert usable(Remedy(path=name, action="drop"), {name: value}) is not None


@pytest.mark.parametrize(
    "echo",
    [
        "https://evil.test/a. Unknown parameter: 'temperature'.",
        "Unsupported parameter: 'temperature' is not supported.",
    ],
)
def test_a_client_cannot_put_words_into_the_mouth_of_an_upstream(echo: str) -> None:
    """An error that repeats the request does not refuse what the request says."""
    body = {"model": "m", "temperature": 0.2, "messages": [{"role": "user", "content": [{"image_url": {"url": echo}}]}]}
    failure = Failure(kind=FailureKind.INVALID_REQUEST, message=f"Failed to download image from {echo}", status=400)
    assert read_refusal(failure, body) == ()


def test_limits_of_one_prompt_are_not_remembered() -> None:
    """The next prompt has another length."""
    text = "max_tokens must be less than or equal to 596 because the prompt uses 3500 tokens"
    failure = Failure(kind=FailureKind.INVALID_REQUEST, message=text, status=400, protocol=Protocol.CHAT)
    assert [remedy.lasting for remedy in read_refusal(failure, {"model": "m", "max_tokens": 4096})] == [False]


@pytest.mark.parametrize(
    ("message", "path", "code"),
    [
        # OpenAI, for organisations that are not verified.
        (
            "Your organization must be verified to generate reasoning summaries.",
            "reasoning.summary",
            "unsupported_value",
        ),
        # xAI's Responses.
        ("Argument not supported: include", "include", None),
    ],
)
def test_what_the_translation_itself_adds_is_learned(message: str, path: str, code: str | None) -> None:
    """Nobody asked for these, and every request would fail."""
    body = {"model": "m", "include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto", "effort": "low"}}
    failure = Failure(kind=FailureKind.INVALID_REQUEST, message=message, status=400, code=code, param=path)
    assert [remedy.path for remedy in read_refusal(failure, body)] == [path]


def test_what_the_translation_can_do_better_than_leave_out() -> None:
    """Stop sequences are emulated, and schemas asked for in words."""
    remedies = tuple(Remedy(path=path, action="drop") for path in ("stop", "response_format[json_schema]", "seed"))
    fields, left = profile_fields(remedies)
    assert fields == {"max_stops": 0, "json_schema": False}
    assert [remedy.path for remedy in left] == ["seed"]

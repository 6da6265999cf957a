from typing import Any

import pytest

from tests.protocols.messages.wire_samples import BUDGET, MIDDLE, MODERN, encode, foreign, turn, user
from trilogue.errors import Unsupported
from trilogue.model import CacheMark, Caching, Effort, FormatKind, OutputFormat, Role, Sampling, Text, Thinking, Tier

OLD = "claude-3-haiku"


def sampled(model: str, **fields: Any) -> tuple[dict[str, Any], list[str]]:
    return encode(foreign(sampling=Sampling(max_tokens=100, **fields)), model)


def test_output_limit_is_made_up_where_there_is_none() -> None:
    """The API demands one; the profile knows what the model can do."""
    body, losses = encode(foreign(sampling=Sampling()), OLD)
    assert body["max_tokens"] == 4096
    assert losses == ["max_tokens.defaulted"]


def test_sampling_where_it_is_taken() -> None:
    """The range ends at 1 here."""
    body, losses = sampled(OLD, temperature=1.5, top_p=0.9)
    assert (body["temperature"], body["top_p"]) == (1, 0.9)
    assert losses == ["temperature.clamped"]


def test_sampling_where_it_is_not_taken() -> None:
    """Newer models refuse it even at its default; dropping a default loses nothing."""
    body, losses = sampled(MODERN, temperature=0.2, top_p=1)
    assert "temperature" not in body
    assert "top_p" not in body
    assert losses == ["sampling.dropped"]


def test_one_of_temperature_and_top_p() -> None:
    """The models between take one of the two."""
    body, losses = sampled(MIDDLE, temperature=0.2, top_p=0.9)
    assert "top_p" not in body
    assert body["temperature"] == 0.2
    assert losses == ["sampling.dropped"]


def test_thinking_fixes_the_temperature() -> None:
    """The API refuses another one while the model thinks."""
    request = foreign(thinking=Thinking(effort=Effort.LOW), sampling=Sampling(max_tokens=9000, temperature=0.2))
    body, losses = encode(request, BUDGET)
    assert "temperature" not in body
    assert losses == ["sampling.dropped"]


@pytest.mark.parametrize(
    ("fields", "losses"),
    [
        ({"frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}}, []),
        ({"frequency_penalty": 0.5}, ["param.dropped"]),
        ({"presence_penalty": -1}, ["param.dropped"]),
        ({"logit_bias": {"1": 2}}, ["param.dropped"]),
        ({"seed": 0}, ["param.dropped"]),
        ({"max_tool_calls": 3}, ["param.dropped"]),
        ({"choices": 1, "logprobs": False}, []),
    ],
)
def test_parameters_without_equivalent(fields: dict[str, Any], losses: list[str]) -> None:
    """A value that changes nothing is not a loss."""
    assert sampled(MODERN, **fields)[1] == losses


@pytest.mark.parametrize("fields", [{"choices": 2}, {"logprobs": True}, {"top_logprobs": 3}])
def test_what_the_user_relies_on_is_refused(fields: dict[str, Any]) -> None:
    """An answer without it would not be the answer to the request."""
    with pytest.raises(Unsupported):
        sampled(MODERN, **fields)


def test_stop_sequences_of_white_space_are_not_taken() -> None:
    """The API answers 400 to them: we cut the response ourselves."""
    body, losses = sampled(MODERN, stop=("END", "\n"))
    assert body["stop_sequences"] == ["END"]
    assert losses == ["stop.emulated"]


def test_output_schema() -> None:
    """The schema is carried; a description has no place."""
    schema = {"type": "object", "additionalProperties": False}
    output = OutputFormat(kind=FormatKind.SCHEMA, name="n", schema=schema, strict=True, path="response_format")
    body, losses = encode(foreign(format=output))
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": schema}}
    assert not losses
    described = OutputFormat(kind=FormatKind.SCHEMA, schema=schema, description="d")
    assert encode(foreign(format=described))[1] == ["format.details"]


def test_output_schema_outside_the_subset() -> None:
    """Objects are closed at every depth, and limits are told where the model reads them."""
    number = {"type": "integer", "minimum": 1, "description": "How many."}
    schema = {"type": "object", "properties": {"a": {"type": "object", "properties": {"n": number}}}}
    body, losses = encode(foreign(format=OutputFormat(kind=FormatKind.SCHEMA, schema=schema, path="response_format")))
    told = {"type": "integer", "description": "How many. (minimum: 1)"}
    inner = {"type": "object", "properties": {"n": told}, "additionalProperties": False}
    assert body["output_config"]["format"]["schema"] == {
        "type": "object",
        "properties": {"a": inner},
        "additionalProperties": False,
    }
    assert losses == ["schema.transformed"]


def test_output_schema_for_a_model_without_them() -> None:
    """It is asked for in words, behind the prompts that are there."""
    system = turn(Role.SYSTEM, Text(text="s"), path="messages[0]")
    output = OutputFormat(kind=FormatKind.SCHEMA, schema={"type": "object"}, path="response_format")
    body, losses = encode(foreign(system, user(), format=output), "claude-sonnet-4-20250514")
    assert "output_config" not in body
    assert body["system"][0]["text"] == "s"
    assert '{"type":"object"}' in body["system"][1]["text"]
    assert losses == ["format.schema_in_words"]


def test_any_json_is_asked_for_in_words() -> None:
    """There is no such mode here."""
    system = turn(Role.SYSTEM, Text(text="s"), path="messages[0]")
    body, losses = encode(foreign(system, user(), format=OutputFormat(kind=FormatKind.JSON)))
    assert body["system"][0]["text"] == "s"
    assert "JSON" in body["system"][1]["text"]
    assert losses == ["format.json_object"]
    assert encode(foreign(format=OutputFormat(kind=FormatKind.TEXT)))[1] == []


@pytest.mark.parametrize(
    ("tier", "expected", "losses"),
    [
        (Tier.AUTO, {}, []),
        (Tier.DEFAULT, {"service_tier": "standard_only"}, []),
        (Tier.FLEX, {"service_tier": "standard_only"}, ["tier"]),
        (Tier.PRIORITY, {}, ["tier"]),
        (Tier.SCALE, {}, ["tier"]),
        (Tier.FAST, {"speed": "fast"}, ["tier"]),
        (Tier.ULTRAFAST, {"speed": "fast"}, ["tier"]),
    ],
)
def test_tiers(tier: Tier, expected: dict[str, str], losses: list[str]) -> None:
    """The nearest service level."""
    body, lost = encode(foreign(tier=tier))
    assert {name: body[name] for name in ("service_tier", "speed") if name in body} == expected
    assert lost == losses


def test_identity() -> None:
    """The end user's id, hashed where it is too long."""
    assert encode(foreign(user="u"))[0]["metadata"] == {"user_id": "u"}
    body, losses = encode(foreign(user="u" * 300))
    assert len(body["metadata"]["user_id"]) == 64
    assert losses == ["user.hashed"]


@pytest.mark.parametrize(
    ("fields", "losses"),
    [
        ({"verbosity": "high"}, ["verbosity"]),
        ({"verbosity": "medium"}, []),
        ({"metadata": {"a": "b"}}, ["metadata.kept"]),
        ({"store": True}, ["store.ignored"]),
        ({"store": False}, []),
        ({"caching": Caching(key="k")}, ["cache.key"]),
        ({"caching": Caching(options={"mode": "explicit"})}, ["cache.options"]),
        ({"caching": Caching(retention="24h")}, ["cache.options"]),
    ],
)
def test_settings_of_other_protocols(fields: dict[str, Any], losses: list[str]) -> None:
    """Each is declared by its own code."""
    assert encode(foreign(**fields))[1] == losses


def test_an_earlier_response_cannot_be_named() -> None:
    """Whoever keeps answers must have put it into the turns before."""
    with pytest.raises(Unsupported):
        encode(foreign(previous_response="resp_1"))


@pytest.mark.parametrize(
    ("ttl", "control", "losses"),
    [
        (None, {"type": "ephemeral"}, []),
        (300, {"type": "ephemeral", "ttl": "5m"}, []),
        (3600, {"type": "ephemeral", "ttl": "1h"}, []),
        (1800, {"type": "ephemeral", "ttl": "5m"}, ["cache.ttl"]),
        (43_200, {"type": "ephemeral", "ttl": "1h"}, ["cache.ttl"]),
    ],
)
def test_cache_lifetimes(ttl: int | None, control: dict[str, str], losses: list[str]) -> None:
    """The nearest of two."""
    marked = turn(Role.USER, Text(text="x", cache=CacheMark(ttl), path="p"))
    body, lost = encode(foreign(marked))
    assert body["messages"][0]["content"][0]["cache_control"] == control
    assert lost == losses


def test_at_most_four_marks() -> None:
    """The last ones stand for the longest prefixes."""
    blocks = [Text(text="x", cache=CacheMark(), path=f"p{index}") for index in range(6)]
    body, losses = encode(foreign(turn(Role.USER, *blocks)))
    marked = ["cache_control" in block for block in body["messages"][0]["content"]]
    assert marked == [False, False, True, True, True, True]
    assert losses == ["cache.mark", "cache.mark"]

"""The field tables against the official SDK: no request field without a rule."""

from typing import Any

import pytest
from openai.types.beta import response_create_params as beta
from openai.types.responses import response, response_create_params

from trilogue.model import LOSSES
from trilogue.protocols.responses import CODEC
from trilogue.protocols.responses.request import decode_request
from trilogue.protocols.responses.wire import FIELD_POLICIES, REQUEST_FIELDS, RESPONSE_POLICIES

_NEUTRAL_IN_ANSWERS = {
    "id", "object", "created_at", "model", "output", "status", "error", "incomplete_details", "usage", "service_tier",
}  # fmt: skip
_DECLARED = {"prompt_cache_diagnostics", "tool_usage"}


@pytest.mark.parametrize("params", [response_create_params, beta])
def test_every_sdk_field_has_a_rule(params: Any) -> None:
    """A field that the SDK learns must get a rule here, or it would be an unknown extra."""
    names = {*params.ResponseCreateParamsBase.__annotations__, "stream"}
    assert names <= REQUEST_FIELDS


def test_codex_telemetry_is_silent() -> None:
    """Codex sends it by default; it says nothing about the answer."""
    assert FIELD_POLICIES["client_metadata"].loss == ""
    assert FIELD_POLICIES["client_metadata"].refuse is None


def test_every_loss_code_exists() -> None:
    """A fate with an unknown code would be an internal error at the first request that has the field."""
    codes = {fate.loss for fate in (*FIELD_POLICIES.values(), *RESPONSE_POLICIES.values())} - {""}
    assert codes <= LOSSES.keys()


def test_every_response_field_is_neutral_an_echo_or_declared() -> None:
    """New fields of answers must be sorted too: echoes are no loss, news are."""
    assert response.Response.model_fields.keys() <= _NEUTRAL_IN_ANSWERS | RESPONSE_POLICIES.keys() | _DECLARED


@pytest.mark.parametrize(
    ("name", "harmless", "harmful"),
    [
        ("background", False, True),
        ("reasoning.mode", "standard", "pro"),
        ("caller", {"type": "direct"}, {"type": "program", "caller_id": "p"}),
    ],
)
def test_what_the_user_relies_on_is_refused(name: str, harmless: object, harmful: object) -> None:
    """Defaults that some clients spell out must pass; the real thing must not vanish."""
    assert FIELD_POLICIES[name].refuse
    assert harmless in FIELD_POLICIES[name].harmless
    assert harmful not in FIELD_POLICIES[name].harmless


def test_dotted_extras_have_the_names_of_the_policies() -> None:
    """`reasoning.mode` can only be refused if it is kept under that very name."""
    body = {"model": "m", "reasoning": {"mode": "pro", "context": "all_turns", "effort": "low"}}
    request = decode_request(body)
    assert request.extras == {"reasoning.mode": "pro", "reasoning.context": "all_turns"}
    assert request.extras.keys() <= FIELD_POLICIES.keys()


def test_codec_names_its_protocol_and_limits() -> None:
    """Translation relies on these to flatten and shorten."""
    assert CODEC.tools.custom
    assert CODEC.tools.name_limit == 64
    assert CODEC.fields.known == REQUEST_FIELDS

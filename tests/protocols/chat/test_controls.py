"""Settings, there and back."""

from typing import Any

import pytest

from trilogue.model import Ledger, Protocol
from trilogue.protocols.chat import CODEC
from trilogue.protocols.codec import Target


@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": 5},
        {"max_completion_tokens": 5, "max_tokens": 6},
        {"temperature": 1, "top_p": 0.5, "top_k": 4, "seed": 7, "n": 2, "stop": ["a"], "logit_bias": {"1": -1}},
        {"logprobs": True, "top_logprobs": 2, "frequency_penalty": 0.5, "presence_penalty": 0},
        {"reasoning_effort": "none"},
        {"reasoning_effort": "unheard_of"},
        {"reasoning_effort": "low", "thinking": {"type": "enabled"}},
        {"reasoning": {"effort": "high", "enabled": True, "exclude": True, "x": 1}},
        {"reasoning": {"max_tokens": 9, "enabled": True, "exclude": False}},
        {"reasoning": {"effort": "unheard_of"}},
        {"reasoning": True},
        {"thinking": {"type": "enabled", "budget_tokens": 5, "clear_thinking": False}},
        {"thinking": {"type": "auto"}},
        {"enable_thinking": True, "chat_template_kwargs": {"enable_thinking": True}},
        {"response_format": {"type": "text"}},
        {"response_format": {"type": "json_object", "schema": {"type": "object"}}},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": {}, "strict": False, "x": 1},
            }
        },
        {"response_format": {"type": "grammar", "grammar": "x"}},
        {"prompt_cache_key": "k", "prompt_cache_retention": "24h", "prompt_cache_options": {"mode": "explicit"}},
        {"service_tier": "fast"},
        {"service_tier": "on_demand"},
        {"user": "u"},
        {"user": "u", "safety_identifier": "s"},
        {"metadata": {}, "store": False, "verbosity": "high"},
        {"stream": True, "stream_options": {"include_usage": False, "include_obfuscation": True, "x": 1}},
        {"audio": {"voice": "a"}, "modalities": ["text", "audio"], "prediction": {}, "moderation": {"model": "m"}},
    ],
)
def test_round_trip(fields: dict[str, Any]) -> None:
    """Every spelling comes back as it was, also what only some servers know."""
    body = {"model": "m", "messages": [{"role": "user", "content": "a"}], **fields}
    ledger = Ledger()
    assert CODEC.encode_request(CODEC.decode_request(body), Target.of(Protocol.CHAT, "m"), ledger) == body
    assert ledger.losses == []

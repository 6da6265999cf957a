"""Versions and betas (docs/mapping.md: Versions and betas)."""

import pytest

from tests.mapping.cases import ABSENT, USER, Ask, M, check_ask, rows
from trilogue import profile_for


@pytest.mark.parametrize(
    ("model", "version"),
    [
        ("claude-sonnet-4-5", "2023-06-01"),
        ("claude-opus-4-5", "2023-06-01"),
        ("claude-opus-4-6", "2023-06-01"),
        ("claude-opus-4-7", "2026-10-21"),
        ("claude-opus-4-8", "2026-10-21"),
        ("claude-sonnet-5", "2026-10-21"),
        ("claude-opus-5", "2026-10-21"),
        ("claude-fable-5", "2026-10-21"),
    ],
)
def test_the_version_fits_the_model(model: str, version: str) -> None:
    """The new version refuses older models their sampling parameters, the old one lets them through."""
    assert profile_for(M, model).version == version


@pytest.mark.parametrize("model", ["claude-opus-4-7", "claude-sonnet-5", "claude-opus-5", "claude-fable-5"])
@pytest.mark.parametrize("name", ["temperature", "top_p"])
def test_newer_models_get_no_sampling_parameters(model: str, name: str) -> None:
    """They answer 400 even at default values."""
    check_ask(Ask("default", "C>M", {name: 1}, {name: ABSENT}, may="sampling.dropped", model=model))
    check_ask(Ask("other", "C>M", {name: 0.5}, {name: ABSENT}, lost="sampling.dropped", model=model))


CASES = (
    *(Ask("betas", f"M>{p}", {"betas": ["something-2026-01-01"]}, may="param.dropped") for p in "CR"),
    *(
        Ask(
            "what Claude Code sends",
            f"M>{p}",
            {
                "system": [
                    {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=ab12;"},
                    {"type": "text", "text": "You are.", "cache_control": {"type": "ephemeral"}},
                ],
                "metadata": {"user_id": "user_1"},
                "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
                "thinking": {"type": "adaptive"},
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}],
                    }
                ],
                "stream": True,
            },
            lost="system.billing_block",
            may="param.dropped cache.mark cache.ttl thinking.mode reasoning.visibility text.blocks_joined",
            model=model,
        )
        for p in "CR"
        for model in ("gpt-5.6", "llama-3.3-70b")
    ),
    *(
        Ask(
            "what Codex sends",
            f"R>{p}",
            {
                "instructions": "You are.",
                "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
                "include": ["reasoning.encrypted_content"],
                "store": False,
                "stream": True,
                "prompt_cache_key": "k",
                "parallel_tool_calls": True,
                "tool_choice": "auto",
                "client_metadata": {"x": "y"},
                "reasoning": {"effort": "medium", "summary": "auto", "context": "all_turns"},
                "text": {"verbosity": "low"},
                "max_output_tokens": 64000,
                "tools": [
                    {
                        "type": "function",
                        "name": "exec",
                        "parameters": {"type": "object", "properties": {}},
                        "strict": False,
                    },
                    {
                        "type": "custom",
                        "name": "apply_patch",
                        "description": "d",
                        "format": {"type": "grammar", "syntax": "lark", "definition": "start: /x/"},
                    },
                    {
                        "type": "namespace",
                        "name": "mcp__x",
                        "description": "d",
                        "tools": [
                            {
                                "type": "function",
                                "name": "f",
                                "parameters": {"type": "object", "properties": {}},
                                "strict": False,
                            }
                        ],
                    },
                    {"type": "web_search", "external_web_access": True},
                    {"type": "tool_search", "execution": "client", "description": "d", "parameters": {}},
                ],
            },
            may="param.dropped cache.key reasoning.context reasoning.visibility verbosity tool.custom_emulated "
            "tool.namespace_description tool.hosted_dropped tool.builtin_emulated "
            "web_search.params effort.clamped thinking.dropped_tools",
            model=model,
        )
        for p, model in (("C", "gpt-5.6"), ("C", "llama-3.3-70b"), ("M", "claude-opus-5"), ("M", "claude-sonnet-4-5"))
    ),
    Ask("nothing but text", "M>C", {"messages": [USER]}),
)


@rows(CASES)
def test_what_clients_send_by_default_is_never_refused(case: Ask) -> None:
    """Carried, emulated or dropped and declared, but no 400."""
    check_ask(case)

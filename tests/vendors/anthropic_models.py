"""The rules of Anthropic's Messages API that depend on the model or on the API version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.vendors.reading import given, is_integer, is_number, items, mapping, messages
from tests.vendors.rule import Book, Request, Scope, documented, once, several
from tests.vendors.sdk_types import SAMPLING
from tests.vendors.values import (
    BUDGETS_ONLY,
    FROM_4_6,
    FROM_4_7,
    NO_THINKING,
    TAKES_BUDGETS,
    claude_levels,
    output_limit,
)

ANTHROPIC = Scope(("anthropic",), ("messages",))
NEW_VERSION = "2026-10-21"
SERVER_BLOCKS = ("server_tool_use", "mcp_tool_use")

RULES = Book()


def thinking(request: Request) -> object:
    """Return the kind of thinking that a request asks for."""
    return mapping(request.body.get("thinking")).get("type")


def _thinks(request: Request) -> bool:
    return thinking(request) in ("enabled", "adaptive")


def _output_config(request: Request) -> dict[str, Any]:
    return mapping(request.body.get("output_config"))


def _sampling(request: Request, why: str) -> Iterator[str]:
    for name in given(request.body, *SAMPLING):
        yield f"{name}: {why}"


@RULES.add(
    "anthropic-thinking-absent",
    ANTHROPIC,
    NO_THINKING,
    "these models do not think",
    documented("router-for-me/CLIProxyAPI#1435, page: Building with extended thinking, Claude"),
)
def _thinking_absent(request: Request) -> Iterator[str]:
    if thinking(request) not in (None, "disabled"):
        yield f"thinking.type: {thinking(request)!r}, but {request.model} does not think"


@RULES.add(
    "anthropic-thinking-adaptive",
    ANTHROPIC,
    BUDGETS_ONLY,
    "adaptive thinking from 4.6 on",
    documented("askalf/dario#273, diegosouzapw/OmniRoute#1563"),
)
def _thinking_adaptive(request: Request) -> Iterator[str]:
    if thinking(request) == "adaptive":
        yield f"thinking.type: 'adaptive' is not for {request.model}"


@RULES.add(
    "anthropic-thinking-budget-gone",
    ANTHROPIC,
    FROM_4_7,
    "budgets of thinking until 4.6 only",
    documented("srtab/daiv#1429, OpenHands/software-agent-sdk#3427"),
)
def _thinking_budget_gone(request: Request) -> Iterator[str]:
    if thinking(request) == "enabled":
        yield f"thinking.type: 'enabled' is not for {request.model}"


@RULES.add(
    "anthropic-thinking-always",
    ANTHROPIC,
    r"claude-(fable|mythos)",
    "these models always think",
    documented("MoonshotAI/kimi-code#610, BaseInfinity/claude-sdlc-harness#385"),
)
def _thinking_always(request: Request) -> Iterator[str]:
    if thinking(request) == "disabled":
        yield f"thinking.type: 'disabled', but {request.model} always thinks"


@RULES.add(
    "anthropic-effort-without-thinking",
    ANTHROPIC,
    r"claude-(opus-5|opus-4-8)",
    "no effort above high with thinking disabled",
    documented("elgorro/aiquila#410, anthropics/claude-code#79798"),
)
def _effort_without_thinking(request: Request) -> Iterator[str]:
    level = _output_config(request).get("effort")
    if thinking(request) == "disabled" and level in ("xhigh", "max"):
        yield f"output_config.effort: {level!r} with thinking disabled"


@RULES.add(
    "anthropic-budget-size",
    ANTHROPIC,
    r"claude",
    "a budget is at least 1024 and below max_tokens",
    documented("themaximalist/llm.js#30, agentgateway/agentgateway#2856"),
)
def _budget_size(request: Request) -> Iterator[str]:
    budget = mapping(request.body.get("thinking")).get("budget_tokens")
    most = request.body.get("max_tokens")
    if not isinstance(budget, int):
        return
    if budget < 1024:
        yield f"thinking.budget_tokens: {budget} is below 1024"
    if isinstance(most, int) and budget >= most:
        yield f"thinking.budget_tokens: {budget} is not below max_tokens, {most}"


@RULES.add(
    "anthropic-thinking-sampling",
    ANTHROPIC,
    r"claude",
    "with thinking: temperature 1, top_p from 0.95, no top_k",
    documented("MartialBE/one-hub#529, quarkiverse/quarkus-langchain4j#1812"),
)
def _thinking_sampling(request: Request) -> Iterator[str]:
    if not _thinks(request):
        return
    temperature, top_p = request.body.get("temperature"), request.body.get("top_p")
    if temperature not in (None, 1):
        yield f"temperature: {temperature} with thinking"
    if isinstance(top_p, int | float) and top_p < 0.95:
        yield f"top_p: {top_p} with thinking"
    for name in given(request.body, "top_k"):
        yield f"{name}: not with thinking"


@RULES.add(
    "anthropic-forced-tool",
    ANTHROPIC,
    TAKES_BUDGETS,
    "no forced tool with a budget of thinking (adaptive is accepted: recorded for Opus 4.6)",
    documented("mastra-ai/mastra#7507, BerriAI/litellm#17129"),
)
def _forced_tool(request: Request) -> Iterator[str]:
    choice = mapping(request.body.get("tool_choice")).get("type")
    if thinking(request) == "enabled" and choice in ("any", "tool"):
        yield f"tool_choice.type: {choice!r} with a budget of thinking"


def _open_turn(request: Request) -> list[tuple[str, dict[str, Any]]]:
    """Return the messages since the user last wrote, if the conversation ends with tool results."""
    found = list(messages(request.body))
    turn: list[tuple[str, dict[str, Any]]] = []
    for path, message in reversed(found):
        kinds = [mapping(block).get("type") for block in items(message.get("content"))]
        if message.get("role") == "user" and "tool_result" not in kinds:
            break
        turn.insert(0, (path, message))
    return turn if turn and turn[-1][1].get("role") == "user" else []


@RULES.add(
    "anthropic-turn-begins-thinking",
    ANTHROPIC,
    TAKES_BUDGETS,
    "with a budget, the last tool-using turn begins with its thinking",
    several("anomalyco/opencode#3077, deepset-ai/haystack-core-integrations#2146"),
)
def _turn_begins_thinking(request: Request) -> Iterator[str]:
    turn = [(path, message) for path, message in _open_turn(request) if message.get("role") == "assistant"]
    if thinking(request) != "enabled" or not turn:
        return
    path, message = turn[0]
    first = mapping(next(iter(items(message.get("content"))), None)).get("type", "text")
    if first not in ("thinking", "redacted_thinking"):
        yield f"{path}.content[0].type: {first!r}, but the turn has to begin with its thinking"


@RULES.add(
    "anthropic-effort-absent",
    ANTHROPIC,
    rf"({NO_THINKING}|claude-3-7|claude-(opus|sonnet)-4(-0|-1|-2025|$|@)|claude-(sonnet|haiku)-4-5)",
    "effort on Opus 4.5, and from 4.6 on",
    documented("Oaklight/llm-rosetta#289, diegosouzapw/OmniRoute#4713"),
)
def _effort_absent(request: Request) -> Iterator[str]:
    for name in given(_output_config(request), "effort"):
        yield f"output_config.{name}: {request.model} takes none"


@RULES.add(
    "anthropic-effort-level",
    ANTHROPIC,
    rf"(claude-opus-4-5|{FROM_4_6})",
    "max from 4.6 on, xhigh from 4.7 on",
    documented("Yeachan-Heo/gajae-code#3913, aaif-goose/goose#9281"),
)
def _effort_level(request: Request) -> Iterator[str]:
    levels = claude_levels(request.model)
    for name in given(_output_config(request), "effort"):
        level = _output_config(request)[name]
        if levels is not None and level not in levels:
            yield f"output_config.effort: {level!r} is not one of {', '.join(levels)}"


@RULES.add(
    "anthropic-temperature-or-top-p",
    ANTHROPIC,
    r"claude-(opus-4-1|(opus|sonnet|haiku)-4-[56])",
    "temperature or top_p, not both",
    several("open-webui/open-webui#17922, langfuse/langfuse#9882"),
)
def _temperature_or_top_p(request: Request) -> Iterator[str]:
    if len(list(given(request.body, "temperature", "top_p"))) == 2:
        yield "top_p: not together with temperature"


@RULES.add(
    "anthropic-sampling-model",
    ANTHROPIC,
    FROM_4_7,
    "no sampling from 4.7 on",
    documented("UKGovernmentBEIS/inspect_ai#3721, promptfoo/promptfoo#9500"),
)
def _sampling_model(request: Request) -> Iterator[str]:
    yield from _sampling(request, f"{request.model} takes none")


@RULES.add(
    "anthropic-sampling-version",
    ANTHROPIC,
    r"claude",
    "no sampling at all with version 2026-10-21",
    documented("page: Versioning, Claude API"),
)
def _sampling_version(request: Request) -> Iterator[str]:
    if request.version >= NEW_VERSION:
        yield from _sampling(request, f"gone with version {request.version}")


@RULES.add(
    "anthropic-temperature-range",
    ANTHROPIC,
    r"claude",
    "temperature from 0 to 1",
    documented("page: Create a Message, Claude API reference"),
)
def _temperature_range(request: Request) -> Iterator[str]:
    for name in given(request.body, "temperature", "top_p"):
        value = request.body[name]
        if is_number(value) and not 0 <= value <= 1:
            yield f"{name}: {value} is not between 0 and 1"


@RULES.add(
    "anthropic-output-limit",
    ANTHROPIC,
    r"claude",
    "no more output tokens than the model can give",
    documented("avante-corp/avante.nvim#1761, Effect-TS/effect#7129"),
)
def _output_limit(request: Request) -> Iterator[str]:
    limit, value = output_limit(request.model), request.body.get("max_tokens")
    raised = any(beta.startswith("output-") for beta in request.betas)
    if limit is not None and is_integer(value) and value > limit and not raised:
        yield f"max_tokens: {value} is over {limit}"


def _is_prefilled(request: Request) -> bool:
    """Return whether the conversation ends with a prefilled response.

    A paused turn also ends with the assistant: it contains calls of server tools and is sent back unchanged.
    """
    found = [message for _, message in messages(request.body)]
    if not found or found[-1].get("role") != "assistant":
        return False
    kinds = [mapping(block).get("type") for block in items(found[-1].get("content"))]
    return not any(kind in SERVER_BLOCKS for kind in kinds)


@RULES.add(
    "anthropic-prefill-model",
    ANTHROPIC,
    FROM_4_6,
    "no prefill from 4.6 on",
    documented("rec: claude-sonnet-5, does not support assistant message prefill, vercel/ai#12296"),
)
def _prefill_model(request: Request) -> Iterator[str]:
    if _is_prefilled(request):
        yield f"messages: end with the assistant, but {request.model} takes no prefill"


@RULES.add(
    "anthropic-prefill-mode",
    ANTHROPIC,
    r"claude",
    "no prefill with thinking or with a schema for the answer",
    documented("page: Building with extended thinking, Claude, page: Structured outputs, Claude"),
)
def _prefill_mode(request: Request) -> Iterator[str]:
    if not _is_prefilled(request):
        return
    if _thinks(request):
        yield "messages: end with the assistant, but thinking is on"
    if _output_config(request).get("format") is not None:
        yield "messages: end with the assistant, but the answer has a schema"


@RULES.add(
    "anthropic-format-model",
    ANTHROPIC,
    rf"({NO_THINKING}|claude-3-7|claude-(opus|sonnet)-4(-0|-2025|$|@))",
    "output_config.format from 4.5 on (and Opus 4.1)",
    documented("envoyproxy/ai-gateway#1846, page: Structured outputs, Claude"),
)
def _format_model(request: Request) -> Iterator[str]:
    for name in given(_output_config(request), "format"):
        yield f"output_config.{name}: not for {request.model}"


@RULES.add(
    "anthropic-system-role",
    ANTHROPIC,
    rf"({NO_THINKING}|{BUDGETS_ONLY}|claude-(opus|sonnet|haiku)-4-6|claude-opus-4-7)",
    "the system role inside messages from Opus 4.8 on",
    documented("anthropics/claude-code#61242, vercel/ai#15674"),
)
def _system_role(request: Request) -> Iterator[str]:
    for path, message in messages(request.body):
        if message.get("role") == "system":
            yield f"{path}.role: 'system' is not for {request.model}"


@RULES.add(
    "anthropic-system-first",
    ANTHROPIC,
    r"claude",
    "the first message is not the system's",
    once("LeenHawk/gproxy#209"),
)
def _system_first(request: Request) -> Iterator[str]:
    first = mapping(next(iter(items(request.body.get("messages"))), None))
    if first.get("role") == "system":
        yield "messages[0].role: 'system' is first"


@RULES.add(
    "anthropic-speed",
    ANTHROPIC,
    r"(?!claude-(opus-4-[68]|opus-[5-9]))claude",
    "speed fast on Opus 4.8 and Opus 5 (Opus 4.6 ignores it)",
    documented("NousResearch/hermes-agent#82348, zed-industries/zed#61341"),
)
def _speed(request: Request) -> Iterator[str]:
    if request.body.get("speed") == "fast":
        yield f"speed: 'fast' is not for {request.model}"

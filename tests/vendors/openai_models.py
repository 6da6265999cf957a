"""The rules of OpenAI and Azure that depend on the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.vendors.reading import (
    effort,
    efforts,
    functions,
    given,
    is_chat,
    is_integer,
    items,
    mapping,
    openai_parts,
    parts,
    stops,
)
from tests.vendors.rule import Book, Request, Scope, documented, several
from tests.vendors.values import PLAIN, REASONING, openai_levels, output_limit, reasons

BOTH = Scope(("openai", "azure"), ("chat", "responses"))
CHAT = Scope(("openai", "azure"), ("chat",))
RESPONSES = Scope(("openai", "azure"), ("responses",))
OPENAI = Scope(("openai",), ("chat", "responses"))
AZURE = Scope(("azure",), ("chat", "responses"))

RULES = Book()


def _reasoning(request: Request) -> dict[str, Any]:
    return mapping(request.body.get("reasoning"))


@RULES.add(
    "openai-effort-absent",
    BOTH,
    PLAIN,
    "models that do not reason take no effort",
    several("BoundaryML/baml#2708, Laisky/one-api#120"),
)
def _effort_absent(request: Request) -> Iterator[str]:
    for path, level in efforts(request.body):
        yield f"{path}: {level!r}, but {request.model} takes no effort"


@RULES.add(
    "openai-effort-level",
    BOTH,
    rf"{REASONING}|gpt-5\.\d+-chat",
    "each model takes its own effort levels",
    documented("enricoros/big-AGI#944, anomalyco/models.dev#2296"),
)
def _effort_level(request: Request) -> Iterator[str]:
    levels = openai_levels(request.model)
    for path, level in efforts(request.body):
        if levels is not None and level not in levels:
            yield f"{path}: {level!r} is not one of {', '.join(levels)}"


@RULES.add(
    "openai-sampling",
    BOTH,
    REASONING,
    "models take temperature and top_p other than 1 only while they do not reason",
    documented("vercel/ai#10940, openai/openai-python#2072"),
)
def _sampling(request: Request) -> Iterator[str]:
    if reasons(request.model, effort(request.body)):
        for name in given(request.body, "temperature", "top_p"):
            if request.body[name] != 1:
                yield f"{name}: {request.body[name]!r} while the model reasons"


@RULES.add(
    "openai-logprobs",
    BOTH,
    REASONING,
    "models that reason give no log probabilities",
    several("confident-ai/deepeval#2184, vercel/ai#10940"),
)
def _logprobs(request: Request) -> Iterator[str]:
    for name in ("logprobs", "top_logprobs"):
        if request.body.get(name):
            yield f"{name}: not with a model that reasons"
    if "message.output_text.logprobs" in items(request.body.get("include")):
        yield "include: message.output_text.logprobs, but the model reasons"


@RULES.add(
    "openai-verbosity",
    BOTH,
    r"gpt-4|gpt-3|chatgpt-4|gpt-5-chat|o[1-9]|gpt-5(\.\d)?-codex",
    "only gpt-5 and later (not the Codex models) take a verbosity other than medium",
    documented("enricoros/big-AGI#947, google-deepmind/concordia#164"),
)
def _verbosity(request: Request) -> Iterator[str]:
    found = {"verbosity": request.body.get("verbosity")}
    if not is_chat(request.body):
        found = {"text.verbosity": mapping(request.body.get("text")).get("verbosity")}
    for path, value in found.items():
        if value not in (None, "medium"):
            yield f"{path}: {value!r} is not 'medium'"


@RULES.add(
    "openai-cache-marks",
    BOTH,
    r"(?!gpt-(5\.[6-9]|[6-9]))",
    "explicit cache marks and prompt_cache_options from gpt-5.6 on",
    several("Kilo-Org/kilocode#13052, page: Prompt caching, OpenAI API"),
)
def _cache_marks(request: Request) -> Iterator[str]:
    for name in given(request.body, "prompt_cache_options"):
        yield f"{name}: not before gpt-5.6"
    for path, part in openai_parts(request.body):
        for name in given(part, "prompt_cache_breakpoint"):
            yield f"{path}.{name}: not before gpt-5.6"


@RULES.add(
    "openai-images",
    BOTH,
    r"o3-mini|o1-mini|gpt-3\.5",
    "these models see no images",
    several("browser-use/browser-use#283, appatalks/eva-agent#65"),
)
def _images(request: Request) -> Iterator[str]:
    for path, part in openai_parts(request.body):
        if part.get("type") in ("image_url", "input_image"):
            yield f"{path}.type: {part['type']!r}, but {request.model} sees no images"


@RULES.add(
    "openai-encrypted-reasoning",
    RESPONSES,
    PLAIN,
    "encrypted reasoning can only be asked of models that reason",
    several("pydantic/pydantic-ai#2865, miquido/draive#399"),
)
def _encrypted_reasoning(request: Request) -> Iterator[str]:
    if "reasoning.encrypted_content" in items(request.body.get("include")):
        yield f"include: reasoning.encrypted_content, but {request.model} does not reason"


@RULES.add(
    "openai-summary-absent",
    RESPONSES,
    PLAIN,
    "models that do not reason take no reasoning.summary",
    several("BoundaryML/baml#2708, openai/openai-python#2194"),
)
def _summary_absent(request: Request) -> Iterator[str]:
    for name in given(_reasoning(request), "summary", "generate_summary"):
        yield f"reasoning.{name}: {request.model} does not reason"


@RULES.add(
    "openai-summary-kind",
    RESPONSES,
    r"gpt-5(-mini|-nano|-2025|$)",
    "gpt-5 gives detailed summaries only (or auto)",
    several("openai/codex#2376, BerriAI/litellm#16549"),
)
def _summary_kind(request: Request) -> Iterator[str]:
    for name in given(_reasoning(request), "summary", "generate_summary"):
        if _reasoning(request)[name] not in ("auto", "detailed"):
            yield f"reasoning.{name}: {_reasoning(request)[name]!r} is not 'auto' or 'detailed'"


@RULES.add(
    "openai-penalties",
    CHAT,
    REASONING,
    "models that reason take no penalties and no logit_bias",
    several("nextai-translator/nextai-translator#1781, stanford-crfm/helm#3617"),
)
def _penalties(request: Request) -> Iterator[str]:
    for name in given(request.body, "frequency_penalty", "presence_penalty", "logit_bias"):
        if request.body[name] != {}:
            yield f"{name}: not with a model that reasons"


@RULES.add(
    "openai-stop",
    CHAT,
    r"(o3(?!-mini)|o4|gpt-5(?!(\.\d+)?-chat)|gpt-6)",
    "o3, o4-mini, gpt-5 and later take no stop",
    several("langgenius/dify#18971, huggingface/smolagents#1671"),
)
def _stop(request: Request) -> Iterator[str]:
    if stops(request.body):
        yield f"stop: {request.model} takes none"


@RULES.add(
    "openai-max-completion-tokens",
    CHAT,
    REASONING,
    "models that reason want max_completion_tokens",
    documented("ServiceNow/AgentLab#251, UKGovernmentBEIS/inspect_ai#573"),
)
def _max_completion_tokens(request: Request) -> Iterator[str]:
    for name in given(request.body, "max_tokens"):
        yield f"{name}: use max_completion_tokens"


@RULES.add(
    "openai-output-limit",
    CHAT,
    r".*",
    "no more output tokens than the model can give",
    documented("charmbracelet/catwalk#41, page: GPT-4o Model, OpenAI API"),
)
def _output_limit(request: Request) -> Iterator[str]:
    limit = output_limit(request.model)
    for name in given(request.body, "max_tokens", "max_completion_tokens"):
        value = request.body[name]
        if limit is not None and is_integer(value) and value > limit:
            yield f"{name}: {value} is over {limit}"


@RULES.add(
    "openai-parallel-calls",
    CHAT,
    r"o[1-9]",
    "o-series models take no parallel_tool_calls in Chat",
    several("langchain-ai/langchain#29704, evalstate/fast-agent#279"),
)
def _parallel_calls(request: Request) -> Iterator[str]:
    for name in given(request.body, "parallel_tool_calls"):
        yield f"{name}: {request.model} takes none"


@RULES.add(
    "openai-tools-while-reasoning",
    CHAT,
    r"gpt-5\.[4-9](?!-chat)",
    "from gpt-5.4 on Chat takes function tools only without reasoning (5.5 and later reason unless effort is none)",
    documented("openai/openai-openapi#541, BerriAI/litellm#34569"),
)
def _tools_while_reasoning(request: Request) -> Iterator[str]:
    level = effort(request.body)
    if reasons(request.model, level) and any(functions(request.body)):
        yield f"tools: function tools while the model reasons (reasoning_effort is {level!r})"


@RULES.add(
    "openai-web-search",
    CHAT,
    r"(?!.*search)",
    "web_search_options on search models only",
    documented("rec: gpt-4o, Web search options not supported with this model"),
)
def _web_search(request: Request) -> Iterator[str]:
    for name in given(request.body, "web_search_options"):
        yield f"{name}: {request.model} does not search"


@RULES.add(
    "openai-audio",
    CHAT,
    r"(?!.*audio)",
    "audio on audio models only",
    documented("rec: gpt-5-mini, content blocks are expected to be either text or image_url type"),
)
def _audio(request: Request) -> Iterator[str]:
    for name in given(request.body, "audio"):
        yield f"{name}: {request.model} does not speak"
    if "audio" in items(request.body.get("modalities")):
        yield f"modalities: {request.model} does not speak"
    for path, _, part in parts(request.body):
        if part.get("type") == "input_audio":
            yield f"{path}.type: 'input_audio', but {request.model} does not hear"


@RULES.add(
    "openai-search-sampling",
    CHAT,
    r"gpt-4o(-mini)?-search",
    "search models take no sampling",
    several("vercel/ai#5609, crmne/ruby_llm#155"),
)
def _search_sampling(request: Request) -> Iterator[str]:
    for name in given(request.body, "temperature", "top_p"):
        yield f"{name}: not with a search model"


@RULES.add(
    "openai-cache-retention",
    OPENAI,
    r"gpt-4o|gpt-5\.[6-9]|gpt-6|o[1-9]|gpt-3",
    "prompt_cache_retention 24h only on the models listed for it; gone with gpt-5.6",
    documented("anomalyco/opencode#5149, page: Prompt caching, OpenAI API"),
)
def _cache_retention(request: Request) -> Iterator[str]:
    if request.body.get("prompt_cache_retention") == "24h":
        yield f"prompt_cache_retention: '24h' is not for {request.model}"


@RULES.add(
    "openai-flex",
    OPENAI,
    r"gpt-4|gpt-3|o1|o3-mini",
    "flex processing on o3, o4-mini and gpt-5 and later",
    documented("vercel/ai#18589, page: Flex processing, OpenAI API"),
)
def _flex(request: Request) -> Iterator[str]:
    if request.body.get("service_tier") == "flex":
        yield f"service_tier: 'flex' is not for {request.model}"


@RULES.add(
    "azure-cache-retention",
    AZURE,
    r".*",
    "Azure takes no prompt_cache_retention",
    several("OpenHands/software-agent-sdk#2295, OpenHands/software-agent-sdk#2311"),
)
def _azure_cache_retention(request: Request) -> Iterator[str]:
    for name in given(request.body, "prompt_cache_retention"):
        yield f"{name}: not on Azure"

"""The rules of vendors other than OpenAI and Azure that speak Chat (xAI also Responses)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.vendors.reading import efforts, forces_tool, given, items, mapping, messages, objects, parts, stops
from tests.vendors.rule import Book, Request, Scope, documented, matches, once, several

ANY = r".*"
DEEPSEEK = Scope(("deepseek",), ("chat",))
MOONSHOT = Scope(("moonshot",), ("chat",))
XAI = Scope(("xai",), ("chat",))
GEMINI = Scope(("gemini",), ("chat",))
OLLAMA = Scope(("ollama",), ("chat",))
OPENROUTER = Scope(("openrouter",), ("chat",))
KIMI = r"kimi-(k2\.[5-9]|k3|latest|for-coding|k2-thinking)"

RULES = Book()


def _is_told_not_to_think(request: Request) -> bool:
    return mapping(request.body.get("thinking")).get("type") == "disabled"


def _call_turns(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the assistant messages that contain tool calls."""
    for path, message in messages(request.body):
        if message.get("role") == "assistant" and items(message.get("tool_calls")):
            yield path, message


@RULES.add(
    "chat-no-developer",
    Scope(("deepseek", "mistral", "moonshot", "groq", "xai"), ("chat",)),
    r"(?!.*gpt-oss)",
    "no developer role",
    several("earendil-works/pi#1048, eclipse-theia/theia#15144"),
)
def _no_developer(request: Request) -> Iterator[str]:
    for path, message in messages(request.body):
        if message.get("role") == "developer":
            yield f"{path}.role: 'developer'"


@RULES.add(
    "deepseek-json-schema",
    DEEPSEEK,
    r"deepseek",
    "no json_schema in Chat, only json_object",
    documented("llm-exe/llm-exe#662, BerriAI/litellm#31466"),
)
def _deepseek_json_schema(request: Request) -> Iterator[str]:
    if mapping(request.body.get("response_format")).get("type") == "json_schema":
        yield "response_format.type: 'json_schema'"


@RULES.add(
    "deepseek-forced-tool",
    DEEPSEEK,
    r"deepseek-(v4|reasoner)",
    "no forced tool while it thinks, which V4 does unless told otherwise",
    several("deepseek-ai/DeepSeek-V3#1376, cloudwego/eino#994"),
)
def _deepseek_forced_tool(request: Request) -> Iterator[str]:
    thinks = matches("deepseek-reasoner", request.model) or not _is_told_not_to_think(request)
    if thinks and forces_tool(request.body):
        yield "tool_choice: forces a tool while the model thinks"


@RULES.add(
    "deepseek-reasoning-content",
    DEEPSEEK,
    r"deepseek-v4",
    "assistant turns with calls bring their reasoning_content back while it thinks",
    several("danny-avila/LibreChat#13366, langbot-app/LangBot#2223"),
)
def _deepseek_reasoning_content(request: Request) -> Iterator[str]:
    if _is_told_not_to_think(request):
        return
    for path, message in _call_turns(request):
        if not isinstance(message.get("reasoning_content"), str):
            yield f"{path}.reasoning_content: missing on a turn with calls"


@RULES.add(
    "deepseek-text-only",
    DEEPSEEK,
    r"deepseek",
    "text only",
    documented("rec: deepseek-v4-flash, unknown variant `image_url`, expected `text`"),
)
def _deepseek_text_only(request: Request) -> Iterator[str]:
    for path, _, part in parts(request.body):
        if part.get("type") != "text":
            yield f"{path}.type: {part.get('type')!r} is not 'text'"


@RULES.add(
    "deepseek-last-message",
    DEEPSEEK,
    r"deepseek-reasoner",
    "the last message is the user's or a tool's",
    once("langgenius/dify#16860"),
)
def _deepseek_last_message(request: Request) -> Iterator[str]:
    found = list(messages(request.body))
    if found and found[-1][1].get("role") not in ("user", "tool"):
        yield f"{found[-1][0]}.role: {found[-1][1].get('role')!r} is last"


@RULES.add(
    "moonshot-sampling",
    MOONSHOT,
    KIMI,
    "temperature 1 and top_p 0.95 only",
    documented("kodustech/kodus-ai#1120, CherryHQ/cherry-studio#14573"),
)
def _moonshot_sampling(request: Request) -> Iterator[str]:
    for name, fixed in (("temperature", 1), ("top_p", 0.95)):
        if request.body.get(name) not in (None, fixed):
            yield f"{name}: {request.body[name]} is not {fixed}"


@RULES.add(
    "moonshot-forced-tool",
    MOONSHOT,
    r"kimi-(k2\.[5-9]|k2-thinking)",
    "no forced tool while it thinks, which it does by default",
    several("UKGovernmentBEIS/inspect_ai#5152, can1357/oh-my-pi#1077"),
)
def _moonshot_forced_tool(request: Request) -> Iterator[str]:
    if forces_tool(request.body) and not _is_told_not_to_think(request):
        yield "tool_choice: forces a tool while the model thinks"


@RULES.add(
    "moonshot-reasoning-content",
    MOONSHOT,
    KIMI,
    "assistant turns with calls bring their reasoning_content back, not empty",
    several("theopenco/llmgateway#2093, can1357/oh-my-pi#1078"),
)
def _moonshot_reasoning_content(request: Request) -> Iterator[str]:
    for path, message in _call_turns(request):
        if not message.get("reasoning_content"):
            yield f"{path}.reasoning_content: missing or empty on a turn with calls"


@RULES.add(
    "moonshot-effort",
    MOONSHOT,
    KIMI,
    "effort none and xhigh are refused",
    several("Kilo-Org/cloud#3807, router-for-me/CLIProxyAPI#1307"),
)
def _moonshot_effort(request: Request) -> Iterator[str]:
    for path, level in efforts(request.body):
        if level in ("none", "xhigh"):
            yield f"{path}: {level!r}"


@RULES.add(
    "moonshot-fixed",
    MOONSHOT,
    KIMI,
    "penalties are fixed at 0, n at 1",
    documented("page: Kimi K2.5, Moonshot AI platform, google-gemini/gemini-cli#18977"),
)
def _moonshot_fixed(request: Request) -> Iterator[str]:
    for name, fixed in (("frequency_penalty", 0), ("presence_penalty", 0), ("n", 1)):
        if request.body.get(name) not in (None, fixed):
            yield f"{name}: {request.body[name]} is not {fixed}"


TAKES_EFFORT = r"grok-(3-mini|4[.-]20-multi-agent|4\.[3-9]|[5-9])"


@RULES.add(
    "xai-effort",
    Scope(("xai",), ("chat", "responses")),
    r"grok",
    "effort on grok-3-mini, 4.20-multi-agent and from 4.3 on",
    documented("NousResearch/hermes-agent#23435, BerriAI/litellm#16265"),
)
def _xai_effort(request: Request) -> Iterator[str]:
    if not matches(TAKES_EFFORT, request.model):
        for path, level in efforts(request.body):
            yield f"{path}: {level!r}, but {request.model} takes no effort"


@RULES.add(
    "xai-penalties",
    XAI,
    r"grok-(4|3-mini|code)",
    "no penalties and no stop on models that reason",
    several("open-webui/open-webui#21266, lobehub/lobehub#8379"),
)
def _xai_penalties(request: Request) -> Iterator[str]:
    for name in given(request.body, "frequency_penalty", "presence_penalty"):
        yield f"{name}: not with a model that reasons"
    if stops(request.body):
        yield "stop: not with a model that reasons"


@RULES.add(
    "gemini-effort",
    GEMINI,
    r"gemini",
    "minimal to high; none on 2.5 models but Pro",
    documented("HKUDS/DeepTutor#809, page: OpenAI compatibility, Gemini API"),
)
def _gemini_effort(request: Request) -> Iterator[str]:
    known = ["minimal", "low", "medium", "high"]
    if matches(r"gemini-2\.5(?!-pro)", request.model):
        known.append("none")
    for path, level in efforts(request.body):
        if level not in known:
            yield f"{path}: {level!r} is not one of {', '.join(known)}"


@RULES.add(
    "gemini-signatures",
    GEMINI,
    r"gemini-[3-9]",
    "tool calls of the current turn come back with their signature",
    several("labring/aiproxy#450, nanbingxyz/5ire#405"),
)
def _gemini_signatures(request: Request) -> Iterator[str]:
    found = list(messages(request.body))
    users = [index for index, (_, message) in enumerate(found) if message.get("role") == "user"]
    for path, message in found[users[-1] + 1 if users else 0 :]:
        # Google signs only the first of parallel calls.
        for place, call in list(objects(message.get("tool_calls"), f"{path}.tool_calls"))[:1]:
            google = mapping(mapping(call.get("extra_content")).get("google"))
            if not google.get("thought_signature"):
                yield f"{place}.extra_content.google.thought_signature: missing"


@RULES.add(
    "ollama-effort",
    OLLAMA,
    ANY,
    "high, medium, low, max or none",
    documented("ollama/ollama#17141, ollama/ollama#17252"),
)
def _ollama_effort(request: Request) -> Iterator[str]:
    for path, level in efforts(request.body):
        if level not in ("high", "medium", "low", "max", "none"):
            yield f"{path}: {level!r}"


@RULES.add(
    "ollama-effort-absent",
    OLLAMA,
    r"llama|gemma|mistral|qwen2",
    "no effort on models that do not think",
    several("Gitlawb/openclaude#1371, taketwo/llm-ollama#54"),
)
def _ollama_effort_absent(request: Request) -> Iterator[str]:
    for path, level in efforts(request.body):
        yield f"{path}: {level!r}, but {request.model} does not think"


def _openrouter_efforts(request: Request) -> Iterator[tuple[str, str]]:
    """Yield the effort levels in OpenAI's field and in OpenRouter's."""
    yield from efforts(request.body)
    level = mapping(request.body.get("reasoning")).get("effort")
    if isinstance(level, str):
        yield "reasoning.effort", level


@RULES.add(
    "openrouter-effort",
    OPENROUTER,
    ANY,
    "xhigh is the highest level",
    once("sdk: litellm openrouter/chat/transformation.py, enricoros/big-AGI#940"),
)
def _openrouter_effort(request: Request) -> Iterator[str]:
    for path, level in _openrouter_efforts(request):
        if level not in ("none", "minimal", "low", "medium", "high", "xhigh"):
            yield f"{path}: {level!r}"


@RULES.add(
    "openrouter-always-reasons",
    OPENROUTER,
    r"gpt-5(?!\.)|deepseek-r1|o[1-9]|gemini-(2\.5-pro|3)",
    "models that always reason refuse to be told not to",
    several("dendrux/dendrux#44, oneshot-agent/oneshot-gtm#579"),
)
def _openrouter_always_reasons(request: Request) -> Iterator[str]:
    for path, level in _openrouter_efforts(request):
        if level == "none":
            yield f"{path}: 'none', but {request.model} always reasons"
    if mapping(request.body.get("reasoning")).get("enabled") is False:
        yield f"reasoning.enabled: false, but {request.model} always reasons"

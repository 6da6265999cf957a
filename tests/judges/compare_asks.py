"""Find differences between a recorded request and its translation that no loss declares."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.judges import meaning
from tests.judges.answers import Call
from tests.judges.asks import Ask, Result, Segment, Tool
from trilogue.model import Protocol

CHAT, MESSAGES, RESPONSES = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES

# Losses that explain a difference in a field. They may add text, but no text may be missing.
EXCUSES: dict[str, frozenset[str]] = {
    "system": frozenset(
        {
            "format.json_object",
            "format.json_word",
            "format.schema_in_words",
            "format.details",
        }
    ),
    "text": frozenset(
        {
            "system.as_user",
            "document.as_text",
            "search_result.as_text",
            "hosted.history_as_text",
            "web_search.replay",
            "tool_result.part",
            "tool_result.media_moved",
        }
    ),
    "result": frozenset(
        {
            "tool_result.part",
            "tool_result.media_moved",
            "document.as_text",
            "search_result.as_text",
            "tool_result.synthetic",
            "tool_result.orphan_dropped",
        }
    ),
    "documents": frozenset({"document.as_text", "search_result.as_text", "tool_result.part"}),
    "natives": frozenset(
        {
            "native.dropped",
            "hosted.history_as_text",
            "hosted.result_dropped",
            "web_search.replay",
            "tool_result.part",
        }
    ),
    "hosted": frozenset(
        {
            "tool.hosted_dropped",
            "tool.hosted_replaced",
            "tool.builtin_emulated",
            "tool.defer_loading",
            "tool_search.algorithm",
        }
    ),
    "tools": frozenset(
        {"tool.name_mangled", "tool.custom_emulated", "tool_choice.allowed_filtered", "schema.transformed"}
    ),
    "choice": frozenset(
        {"tool_choice.dropped", "tool_choice.allowed_filtered", "tool.name_mangled", "tool.custom_emulated"}
    ),
    "parallel": frozenset({"tool_choice.dropped"}),
    "max_tokens": frozenset({"max_tokens.defaulted", "max_tokens.raised", "max_tokens.lowered"}),
    "temperature": frozenset({"temperature.clamped", "sampling.dropped"}),
    "top_p": frozenset({"sampling.dropped"}),
    "top_k": frozenset({"sampling.dropped"}),
    "stop": frozenset({"stop.emulated"}),
    "effort": frozenset(
        {
            "effort.none",
            "effort.minimal",
            "effort.clamped",
            "thinking.budget",
            "thinking.no_room",
            "thinking.mode",
            "thinking.dropped_forced_tool",
            "thinking.dropped_tools",
            "thinking.unavailable",
            "thinking.replay_missing",
        }
    ),
    "format": frozenset({"format.json_object", "format.schema_in_words", "schema.transformed"}),
    "user": frozenset({"user.hashed"}),
    "metadata": frozenset({"metadata.kept"}),
    "arguments": frozenset({"arguments.invalid_json"}),
    "is_error": frozenset({"tool_result.is_error"}),
    "reasoning": frozenset({"reasoning.foreign_dropped"}),
    "opening": frozenset({"turn.inserted"}),
}

# The names of a field in the source, for losses that only have a path.
PATHS: dict[str, tuple[str, ...]] = {
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "top_k": ("top_k",),
    "stop": ("stop", "stop_sequences"),
    "user": ("user", "safety_identifier", "metadata.user_id"),
    "metadata": ("metadata",),
    "parallel": ("parallel_tool_calls", "tool_choice"),
    "effort": ("reasoning_effort", "reasoning", "thinking", "output_config", "enable_thinking"),
}

TOOL_ERROR = "[tool error]"
BILLING = "x-anthropic-billing-header:"
# The default of a field: leaving it out changes nothing.
HARMLESS: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "store": (False, True),
    "logprobs": (False,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "background": (False,),
    "truncation": ("disabled",),
    "modalities": (["text"],),
    "include": ([],),
    "anthropic_version": ("bedrock-2023-05-31", "vertex-2023-10-16", "2023-06-01"),
    "service_tier": ("auto",),
    "usage": ({"include": True},),
}


DEFAULTS: dict[str, tuple[Any, ...]] = {"temperature": (1,), "top_p": (1,)}
"""the sampling of models that accept no sampling parameters"""


@dataclass(frozen=True)
class Pair:
    """A translated request to judge. `losses` are (code, path)."""

    source: Protocol
    target: Protocol
    body: dict[str, Any]
    translated: dict[str, Any]
    losses: tuple[tuple[str, str], ...]
    before: Ask = field(init=False)
    after: Ask = field(init=False)
    codes: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "before", meaning.of_request(self.source, self.body))
        object.__setattr__(self, "after", meaning.of_request(self.target, self.translated))
        object.__setattr__(self, "codes", frozenset(code for code, _ in self.losses))

    def excused(self, name: str) -> bool:
        """Return whether a declared loss explains a difference in this field, by its code or by its path."""
        return bool(EXCUSES[name] & self.codes) or any(_declared(self, path) for path in PATHS.get(name, ()))


def requests(pair: Pair) -> list[str]:
    """Return the differences that neither a rule nor a declared loss explains, one line each."""
    return [problem for check in _CHECKS for problem in check(pair)]


def _system(pair: Pair) -> list[str]:
    wanted, found = pair.before.system, pair.after.system
    if "system.billing_block" in pair.codes:
        wanted = [text.partition("\n")[2] if text.startswith(BILLING) else text for text in wanted]
    if "system.as_user" in pair.codes:
        found = [*found, *(text for segment in pair.after.segments if segment.side == "user" for text in segment.texts)]
    return _texts("system", wanted, found, pair.excused("system") or "system.as_user" in pair.codes)


def _texts(what: str, wanted: list[str], found: list[str], may_grow: bool) -> list[str]:
    """Return a problem if a text is missing, or if text was added although no loss says so."""
    joined = "".join(found)
    missing = [text for text in wanted if text not in joined and text.strip() not in joined]
    if missing:
        return [f"{what} is missing: {missing[0][:60]!r}"]
    if may_grow or _letters("".join(wanted)) == _letters(joined):
        return []
    return [f"{what} has grown: {_letters(joined)[-60:]!r} for {_letters(''.join(wanted))[-60:]!r}"]


def _segments(pair: Pair) -> list[str]:
    wanted, found = pair.before.segments, pair.after.segments
    if pair.excused("opening"):
        found = found[1:]
    sides = [[segment.side for segment in segments] for segments in (wanted, found)]
    if sides[0] != sides[1]:
        if pair.excused("natives") or pair.excused("result"):
            return _flat(pair, wanted, found)
        return [f"turns differ: {''.join(s[0] for s in sides[0])} became {''.join(s[0] for s in sides[1])}"]
    problems = []
    for number, (before, after) in enumerate(zip(wanted, found, strict=True)):
        problems += [f"turn {number}: {problem}" for problem in _segment(pair, before, after)]
    return problems


def _flat(pair: Pair, wanted: list[Segment], found: list[Segment]) -> list[str]:
    """Compare each side as a whole, for requests in which a turn was removed with its content."""
    problems = []
    for side in ("user", "assistant"):
        before, after = Segment(side), Segment(side)
        for whole, parts in ((before, wanted), (after, found)):
            for part in (part for part in parts if part.side == side):
                for name in ("texts", "images", "files", "documents", "calls", "results", "natives"):
                    getattr(whole, name).extend(getattr(part, name))
        problems += [f"{side}: {problem}" for problem in _segment(pair, before, after)]
    return problems


def _segment(pair: Pair, before: Segment, after: Segment) -> list[str]:
    problems = _texts("text", before.texts, after.texts, pair.excused("text"))
    if before.images != after.images:
        problems.append(f"images differ: {before.images} became {after.images}")
    if before.files != after.files and not (pair.excused("documents") and len(after.files) > len(before.files)):
        problems.append(f"files differ: {before.files} became {after.files}")
    problems += _documents(pair, before, after)
    problems += _calls(pair, before.calls, after.calls)
    problems += _results(pair, before.results, after.results)
    if before.natives and len(after.natives) < len(before.natives) and not pair.excused("natives"):
        problems.append(f"gone and not declared: {sorted(set(before.natives))}")
    return problems


def _documents(pair: Pair, before: Segment, after: Segment) -> list[str]:
    said = "".join([*after.texts, *(result.text for result in after.results), *after.documents])
    missing = [text for text in before.documents if text not in said]
    if not missing:
        return (
            [] if before.documents == after.documents or pair.excused("documents") else ["document as text, undeclared"]
        )
    inline = len(after.files) - len(before.files)
    return [] if pair.excused("documents") and inline >= len(missing) else [f"document is missing: {missing[0][:40]!r}"]


_LEGAL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def _calls(pair: Pair, wanted: list[Call], found: list[Call]) -> list[str]:
    if len(wanted) != len(found):
        return [f"calls differ: {[call.name for call in wanted]} became {[call.name for call in found]}"]
    problems = []
    for before, after in zip(wanted, found, strict=True):
        if before.name != after.name and not _renamed(before.name, after.name):
            problems.append(f"call of {before.name} became {after.name}")
        if before.id and _LEGAL_ID.fullmatch(before.id) and before.id != after.id:
            problems.append(f"call id {before.id} became {after.id}")
        emulated = before.kind == "custom" and after.arguments == {"input": before.arguments}
        emulated = emulated and (pair.target is MESSAGES or "tool.custom_emulated" in pair.codes)
        if before.arguments != after.arguments and not emulated and not pair.excused("arguments"):
            problems.append(
                f"arguments of {before.name} differ: {before.arguments!r:.40} became {after.arguments!r:.40}"
            )
    return problems


def _renamed(before: str, after: str) -> bool:
    """Return whether a name that was too long or had other characters has kept its readable part."""
    legal = re.sub(r"[^A-Za-z0-9_-]", "_", before)
    return (legal != before or len(before) > 64) and legal[:40] == after[:40]


def _results(pair: Pair, wanted: list[Result], found: list[Result]) -> list[str]:
    if len(wanted) != len(found) and pair.excused("result"):
        return []
    legal = [result for result in wanted if _LEGAL_ID.fullmatch(result.id)]
    if len(wanted) != len(found):
        return [f"{len(wanted)} tool results became {len(found)}"]
    if len(legal) < len(wanted):
        pairs = list(zip(wanted, found, strict=True))
    else:
        by_id = {result.id: result for result in found}
        pairs = [(result, by_id.get(result.id, Result("", ""))) for result in wanted]
    return [problem for before, after in pairs for problem in _result(pair, before, after)]


_NOTE = re.compile(r"\[(?:image|file|document)[^\]]*\]")
"""the text that replaces moved media"""


def _result(pair: Pair, before: Result, after: Result) -> list[str]:
    if _LEGAL_ID.fullmatch(before.id) and not after.id:
        return [f"result of {before.id} is missing"]
    # A text that already says that the tool failed is not marked again.
    added = before.is_error and not before.text.startswith(TOOL_ERROR)
    text = after.text.removeprefix(TOOL_ERROR).removeprefix(" ") if added else after.text
    if added and not after.is_error and text == after.text:
        return [f"error mark of {before.id} is gone"]
    if before.is_error and not after.is_error and not pair.excused("is_error"):
        return [f"error mark of {before.id} became text, undeclared"]
    if _letters(before.text) == _letters(text):
        return []
    if pair.excused("result") and _letters(before.text) in (_letters(_NOTE.sub("", text)), _letters(text)):
        return []
    if pair.excused("result") and before.text in text:
        return []
    return [f"result of {before.id} differs: {before.text[:40]!r} became {text[:40]!r}"]


def _tools(pair: Pair) -> list[str]:
    wanted, found = pair.before.tools, pair.after.tools
    if "tool_choice.allowed_filtered" in pair.codes:
        names = {tool.name for tool in found}
        wanted = [tool for tool in wanted if tool.name in names]
    if any("search" in tool.name.lower() and not tool.waits for tool in wanted):
        # The client finds its tools itself: the model does not see the others, as at their own provider.
        names = {tool.name for tool in found}
        wanted = [tool for tool in wanted if not tool.waits or tool.name in names]
    if len(wanted) != len(found) and not ("tool.builtin_emulated" in pair.codes and len(found) > len(wanted)):
        return [f"{len(wanted)} tools became {len(found)}"]
    problems = []
    for before, after in _matched(wanted, found):
        if before.name != after.name and not _renamed(before.name, after.name):
            problems.append(f"tool {before.name} became {after.name}")
        emulated = before.kind == "custom" and after.kind == "function" and "tool.custom_emulated" in pair.codes
        if before.description != after.description and not (emulated and before.description in after.description):
            problems.append(f"description of {before.name} differs")
        # OpenAI refuses an object schema without properties, and a missing `properties` means the same.
        wanted_schema = {"properties": {}, **before.schema} if isinstance(before.schema, dict) else before.schema
        if (
            after.schema not in (before.schema, wanted_schema)
            and not emulated
            and "schema.transformed" not in pair.codes
        ):
            problems.append(f"schema of {before.name} differs: {before.schema!r:.60} became {after.schema!r:.60}")
    return problems


def _matched(wanted: list[Tool], found: list[Tool]) -> list[tuple[Tool, Tool]]:
    """Return the tools by name, and renamed ones by their order."""
    names = {tool.name for tool in wanted} & {tool.name for tool in found}
    same = {tool.name: tool for tool in found if tool.name in names}
    renamed = zip((t for t in wanted if t.name not in names), (t for t in found if t.name not in names), strict=False)
    return [*((tool, same[tool.name]) for tool in wanted if tool.name in names), *renamed]


def _hosted(pair: Pair) -> list[str]:
    lost = [kind for kind in pair.before.hosted if kind not in pair.after.hosted]
    if not lost or pair.excused("hosted") or _declared(pair, "tools") or _declared(pair, "web_search_options"):
        return []
    return [f"hosted tools are gone and not declared: {lost}"]


def _declared(pair: Pair, name: str) -> bool:
    return any(re.match(rf"{re.escape(name)}(?:$|[.\[])", path) for _, path in pair.losses)


def _choice(pair: Pair) -> list[str]:
    wanted, found = pair.before.choice, pair.after.choice
    if wanted == found or pair.excused("choice") or _declared(pair, "tool_choice"):
        return []
    if isinstance(wanted, list) and isinstance(found, list) and wanted[0] == "hosted" and found[1] in pair.after.hosted:
        return []
    default = (None, "auto")
    if wanted in default and found in default:
        return []
    if not pair.before.tools and not pair.before.hosted:
        return []
    return [f"tool_choice {wanted} became {found}"]


def _parallel(pair: Pair) -> list[str]:
    wanted, found = pair.before.parallel, pair.after.parallel
    if (wanted is False) == (found is False) or pair.excused("parallel"):
        return []
    if not pair.after.tools or pair.after.choice == "none":
        return []
    return [f"parallel {wanted} became {found}"]


_NOT_REASONING = re.compile(r"gpt-4|llama")
"""models that do not reason, so that reasoning does not have to be switched off"""


def _effort(pair: Pair) -> list[str]:
    wanted, found = pair.before.effort, pair.after.effort
    if wanted == found or pair.excused("effort"):
        return []
    if wanted == "none" and found is None and _NOT_REASONING.match(pair.translated["model"]):
        return []
    if wanted is None and found == "medium" and (pair.body.get("reasoning") or {}).get("enabled"):
        # Routers only say that there should be reasoning, by which they mean medium.
        return []
    if pair.after.budget is not None and pair.after.budget == (pair.after.max_tokens or 0) - 1:
        return []
    return [f"effort {wanted} (budget {pair.before.budget}) became {found} (budget {pair.after.budget})"]


def _scalars(pair: Pair) -> list[str]:
    problems = []
    for name in ("max_tokens", "temperature", "top_p", "top_k", "stop", "user", "stream", "format"):
        wanted, found = getattr(pair.before, name), getattr(pair.after, name)
        by_default = found is None and wanted in DEFAULTS.get(name, ())
        if wanted != found and not by_default and not (name in EXCUSES and pair.excused(name)):
            problems.append(f"{name} {wanted!r:.60} became {found!r:.60}")
    return problems


def _metadata(pair: Pair) -> list[str]:
    if pair.before.metadata == pair.after.metadata or pair.excused("metadata"):
        return []
    return [f"metadata {pair.before.metadata} became {pair.after.metadata}"]


def _reasoning(pair: Pair) -> list[str]:
    before = sum(segment.reasoning for segment in pair.before.segments)
    after = sum(segment.reasoning for segment in pair.after.segments)
    if after >= before or pair.excused("reasoning"):
        return []
    return [f"{before} reasoning blocks became {after}, undeclared"]


def _other_fields(pair: Pair) -> list[str]:
    """Return the other fields that are missing, have an effect and are not declared as lost."""
    problems = []
    for name, value in pair.body.items():
        if name in meaning.covered(pair.source) or value is None or value in HARMLESS.get(name, ()):
            continue
        if name == "logprobs" and "message.output_text.logprobs" in pair.translated.get("include", ()):
            continue
        if name not in pair.translated and not _declared(pair, name) and name not in _ECHOED:
            problems.append(f"field {name}={value!r:.40} is gone and not declared")
    return problems


# These ask for more in the response or say how it is sent, which is checked with responses, or they belong to
# something else: a hosted tool, or caching, which other protocols do automatically.
_ECHOED = frozenset({"include", "stream_options", "web_search_options", "mcp_servers", "cache_control"})

_CHECKS: tuple[Callable[[Pair], list[str]], ...] = (
    _system,
    _segments,
    _tools,
    _hosted,
    _choice,
    _parallel,
    _effort,
    _scalars,
    _metadata,
    _reasoning,
    _other_fields,
)


def _letters(text: str) -> str:
    return "".join(text.split())

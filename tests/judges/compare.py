"""Find differences between a recorded response and its translation that no loss declares.

The rules come from the mapping between the protocols. `EXCUSES` says which loss explains which difference. The
functions know what may change exactly as the mapping says, without a loss.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.judges.answers import END, ERROR, FILTER, LENGTH, PAUSE, TOOL_CALLS, Answer, Call, Usage
from trilogue.model import Protocol

CHAT, MESSAGES, RESPONSES = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
SEAL_PREFIX = "trl2."

EXCUSES: dict[str, frozenset[str]] = {
    "citations": frozenset({"citation.dropped"}),
    "searches": frozenset({"hosted.result_dropped", "native.dropped", "hosted.history_as_text", "web_search.replay"}),
    "natives": frozenset(
        {
            "native.dropped",
            "hosted.result_dropped",
            "hosted.history_as_text",
            "citation.document",
            "citation.dropped",
            "code_exec.container",
            "web_search.replay",
        }
    ),
    "arguments": frozenset({"arguments.invalid_json"}),
    "usage": frozenset({"usage.estimated"}),
    "stop": frozenset({"stop.pause_turn", "stop.detail", "native.dropped"}),
    "order": frozenset({"order.flattened", "text.blocks_joined"}),
}


@dataclass(frozen=True)
class Pair:
    """A translation to judge: both protocols, the original, the translation and the declared losses."""

    source: Protocol
    target: Protocol
    before: Answer
    after: Answer
    losses: frozenset[str]

    def excused(self, field: str) -> bool:
        """Return whether a declared loss explains a difference in this field."""
        return bool(EXCUSES[field] & self.losses)


def answers(pair: Pair) -> list[str]:
    """Return the differences that neither a rule nor a declared loss explains, one line each."""
    return [problem for check in _CHECKS for problem in check(pair)]


def _text(pair: Pair) -> list[str]:
    before, after = pair.before, pair.after
    wanted, found = before.text, after.text
    if pair.target is MESSAGES is not pair.source:
        # Messages has no refusal part, so the model's refusal becomes text.
        wanted, found = _letters(wanted + _words(pair)), _letters(found)
    if found == wanted:
        return []
    return [f"text differs: {_around(wanted, found)}"]


def _words(pair: Pair) -> str:
    """Return the model's own refusal. A classifier's explanation is not part of the response."""
    return "" if pair.source is MESSAGES else pair.before.refusal


def _refusal(pair: Pair) -> list[str]:
    wanted, found = pair.before.refusal, pair.after.refusal
    if wanted == found or pair.target is MESSAGES or pair.before.stop == FILTER:
        return []
    return [f"refusal differs: {_around(wanted, found)}"]


def _reasoning(pair: Pair) -> list[str]:
    wanted, found = _letters(pair.before.reasoning), _letters(pair.after.reasoning)
    if wanted == found:
        return []
    return [f"reasoning differs: {_around(wanted, found)}"]


def _opaque(pair: Pair) -> list[str]:
    if pair.source is pair.target:
        return []
    leaked = [value for value in pair.after.opaque if value and not value.startswith(SEAL_PREFIX)]
    if leaked:
        return [f"an opaque value of the upstream reaches the client: {leaked[0][:20]}"]
    kept = len([value for value in pair.after.opaque if value])
    wanted = len([value for value in pair.before.opaque if value])
    # Chat has one list of opaque values per message, which is returned as a whole and so may be sealed as a whole.
    if kept < (min(wanted, 1) if pair.source is CHAT else wanted):
        return ["opaque reasoning is gone"]
    return []


_LEGAL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def _calls(pair: Pair) -> list[str]:
    wanted, found = pair.before.calls, pair.after.calls
    if [call.name for call in wanted] != [call.name for call in found]:
        return [f"calls differ: {[call.name for call in wanted]} became {[call.name for call in found]}"]
    ids = [call.id for call in found]
    problems = ["call ids are not unique"] if len(set(ids)) != len(ids) and "" not in ids else []
    for before, after in zip(wanted, found, strict=True):
        if before.id and _LEGAL_ID.fullmatch(before.id) and after.id != before.id and _alone(before, wanted):
            problems.append(f"call id {before.id} became {after.id}")
        if not same_arguments(before, after, pair):
            problems.append(
                f"arguments of {before.name} differ: {_around(str(before.arguments), str(after.arguments))}"
            )
    return problems


def _alone(call: Call, calls: list[Call]) -> bool:
    return sum(other.id == call.id for other in calls) == 1


def same_arguments(before: Call, after: Call, pair: Pair) -> bool:
    """Return whether the input is the same, or what the mapping makes of it if the target cannot express it."""
    if before.arguments == after.arguments:
        return True
    if before.kind == "custom" and after.arguments == {"input": before.arguments}:
        return pair.target is MESSAGES or "tool.custom_emulated" in pair.losses
    if isinstance(before.arguments, dict):
        return False
    return pair.before.stop == LENGTH or pair.excused("arguments")


def _citations(pair: Pair) -> list[str]:
    wanted, found = pair.before.citations, pair.after.citations
    if _known(wanted) == _known(found) or pair.excused("citations"):
        return []
    return [f"citations differ: {len(wanted)} became {len(found)}: {_first_difference(wanted, found)}"]


def _known(citations: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return sorted(citations)


def _searches(pair: Pair) -> list[str]:
    wanted, found = pair.before.searches, pair.after.searches
    if wanted == found or pair.excused("searches"):
        return []
    return [f"searches differ: {wanted} became {found}"]


def _natives(pair: Pair) -> list[str]:
    lost = pair.before.natives if pair.source is not pair.target else []
    if not lost or len(pair.after.natives) >= len(lost) or pair.excused("natives"):
        return []
    return [f"gone and not declared: {sorted(set(lost))}"]


# What may replace what in another protocol, besides itself.
_STOPS: dict[str | None, frozenset[str | None]] = {
    None: frozenset({END, TOOL_CALLS, ERROR, PAUSE, LENGTH}),
    FILTER: frozenset({FILTER}),
    PAUSE: frozenset({PAUSE}),
}


def _stop(pair: Pair) -> list[str]:
    wanted, found = pair.before.stop, pair.after.stop
    if wanted is found is None and pair.source is pair.target:
        return []
    if found in _STOPS.get(wanted, frozenset({wanted})):
        return []
    if pair.before.refusal and wanted == END and found == FILTER and pair.target is MESSAGES:
        return []
    # A turn that the model has not ended must not look complete.
    if pair.excused("stop") and found in ((LENGTH,) if wanted == PAUSE else (END, TOOL_CALLS)):
        return []
    return [f"stop {wanted} became {found}"]


def _usage(pair: Pair) -> list[str]:
    wanted, found = pair.before.usage, pair.after.usage
    if wanted == found or pair.excused("usage") or pair.before.error:
        return []
    if wanted and found and _impossible(wanted):
        return [f"usage is still impossible: {found}"] if _impossible(found) else []
    if wanted is None or not any(vars(wanted).values()):
        invented = found is not None and any(vars(found).values())
        return [f"usage invented: {found}"] if invented else []
    return [f"usage differs: {wanted} became {found}"]


def _impossible(usage: Usage) -> bool:
    """Return whether more was cached than went in, or more was reasoned than came out: some providers count these
    separately."""
    return usage.cached + usage.cache_write > usage.input or usage.reasoning > usage.output


def _order(pair: Pair) -> list[str]:
    if CHAT in (pair.source, pair.target) or pair.before.order == pair.after.order or pair.excused("order"):
        return []
    if pair.before.refusal:
        return []
    return [f"order differs: {pair.before.order} became {pair.after.order}"]


def _error(pair: Pair) -> list[str]:
    wanted, found = pair.before.error, pair.after.error
    if wanted is None or found is None:
        problem = [f"error {wanted} became {found}"] if wanted != found and pair.before.stop is not None else []
        return problem
    if wanted[1] and wanted[1] not in found[1] and _letters(wanted[1]) not in _letters(found[1]):
        return [f"error message differs: {_around(wanted[1], found[1])}"]
    if wanted[0] != "unknown" and wanted[0] != found[0]:
        return [f"error class {wanted[0]} became {found[0]}"]
    return []


_CHECKS: tuple[Callable[[Pair], list[str]], ...] = (
    _error,
    _text,
    _refusal,
    _reasoning,
    _opaque,
    _calls,
    _citations,
    _searches,
    _natives,
    _stop,
    _usage,
    _order,
)


def _letters(text: str) -> str:
    return "".join(text.split())


def _around(wanted: str, found: str) -> str:
    """Return the place where two texts begin to differ."""
    at = next((i for i, (a, b) in enumerate(zip(wanted, found, strict=False)) if a != b), min(len(wanted), len(found)))
    start = max(0, at - 15)
    return f"at {at} of {len(wanted)}/{len(found)}: {wanted[start : at + 25]!r} became {found[start : at + 25]!r}"


def _first_difference(wanted: list[Any], found: list[Any]) -> str:
    missing = [item for item in wanted if item not in found]
    added = [item for item in found if item not in wanted]
    return f"missing {missing[:1]}, new {added[:1]}"

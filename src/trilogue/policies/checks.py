"""The boundary around the code of policies: exceptions become data, and verdicts are checked before they count."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType

from msgspec import Struct, convert, to_builtins

from trilogue.base.json_text import parse_object
from trilogue.model import Block, CallKind, Reasoning, Refusal, Request, Text, ToolCall
from trilogue.policies.verdicts import Drop, Pass, PolicyVerdict, Replace, Rewrite, StopWith

MOST_BLOCKS = 64
"""blocks that may take the place of one"""
MOST_SHOWN = 200
MOST_TEXT = 1_000_000
"""characters that one verdict, or all replacements in one block, may have"""

ALLOWED: dict[str, tuple[type[PolicyVerdict], ...]] = {
    "request": (Pass, Rewrite, StopWith),
    "block": (Pass, Rewrite, Replace, Drop, StopWith),
}
"""the verdicts that each hook may return"""


class PolicyProblem(Struct, frozen=True):
    """What went wrong with a policy, in words that show no content."""

    what: str


class _Boundary:
    """A context manager that stops every exception of the code inside, and keeps the name of its type."""

    error: str = ""
    text: str = ""
    """what the exception says; it may quote content"""

    def __enter__(self) -> _Boundary:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        # An interrupt or a cancelled task is not the policy's fault and goes on.
        if kind is None or not issubclass(kind, Exception | SystemExit):
            return False
        self.error, self.text = kind.__name__, str(error)
        return True


def guarded(call: Callable[[], object]) -> object:
    """Return what a call returns, or a `PolicyProblem` if it raises."""
    with _Boundary() as boundary:
        return call()
    return PolicyProblem(f"raised {boundary.error}")


def imported(load: Callable[[], object]) -> object:
    """Return what is loaded, or a `PolicyProblem` that says why not. Only for code that has seen no content."""
    with _Boundary() as boundary:
        return load()
    return PolicyProblem(" ".join(f"{boundary.error}: {boundary.text}".split())[:MOST_SHOWN])


def check(stage: str, verdict: object, block: Block | None = None, ids: Iterable[str] = ()) -> PolicyProblem | None:
    """Return what is wrong with a verdict, or None. `ids`: the ids of the calls that have gone on."""
    if not isinstance(verdict, ALLOWED[stage]):
        return PolicyProblem(f"returned {type(verdict).__name__}, which is not a verdict here")
    problem = text_problem([verdict.reason])
    if problem:
        return PolicyProblem(problem)
    if isinstance(verdict, StopWith):
        problem = text_problem([verdict.words])
    elif isinstance(verdict, Rewrite):
        problem = _rewrite_problem(verdict.to, block)
    elif isinstance(verdict, Replace):
        problem = _replace_problem(verdict.blocks, block, set(ids))
    return PolicyProblem(problem) if problem else None


def text_problem(texts: Iterable[object]) -> str | None:
    """Return what is wrong with texts that a policy returned, or None."""
    length = 0
    for text in texts:
        if not isinstance(text, str):
            return "returned text that is not a string"
        length += len(text)
        if _has_half_characters(text):
            return "returned text with half of a character"
    return f"returned more than {MOST_TEXT} characters" if length > MOST_TEXT else None


def _has_half_characters(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _rewrite_problem(to: object, block: Block | None) -> str | None:
    if block is None:
        return None if isinstance(to, Request) else "rewrote a request as something else"
    if type(to) is not type(block):
        return "rewrote a block as another kind"
    return _block_problem(to, block)


def _replace_problem(blocks: object, block: Block | None, ids: set[str]) -> str | None:
    if not isinstance(blocks, tuple | list):
        return "returned blocks that are not a list"
    if len(blocks) > MOST_BLOCKS:
        return f"returned more than {MOST_BLOCKS} blocks"
    for item in blocks:
        if item is not block and type(item) not in _TEXTS:
            return "returned a block of a kind that only upstreams make"
        problem = _block_problem(item, block)
        if problem:
            return problem
        if type(item) is ToolCall:
            if item.id in ids:
                return "returned two calls with the same id"
            ids.add(item.id)
    return None


def _block_problem(item: object, block: Block | None) -> str | None:
    if item is block:
        return None
    # Constructors of structs take any value; only a conversion finds a field of the wrong type.
    converted = guarded(lambda: convert(to_builtins(item), type(item)))
    if isinstance(converted, PolicyProblem):
        return "returned a block with a field of the wrong type"
    texts = _TEXTS.get(type(item))
    problem = text_problem(texts(item)) if texts else None
    return problem or (_call_problem(item, block) if isinstance(item, ToolCall) else None)


def _call_problem(call: ToolCall, block: Block | None) -> str | None:
    if not call.id or not call.name:
        return "returned a call without id or name"
    # What the model wrote may be anything; what a policy makes of it must not be worse.
    if type(block) is ToolCall and parse_object(block.arguments) is None:
        return None
    if call.kind is CallKind.FUNCTION and parse_object(call.arguments) is None:
        return "returned arguments that are not a JSON object"
    return None


def _reasoning_texts(block: Reasoning) -> list[object]:
    return [*block.summary, *block.raw]


_TEXTS: dict[type, Callable[..., list[object]]] = {
    Text: lambda block: [block.text],
    Refusal: lambda block: [block.text],
    ToolCall: lambda block: [block.id, block.name, block.arguments],
    Reasoning: _reasoning_texts,
}
"""the kinds of blocks that policies may make, and their text"""

"""The search in deferred tools, by a regular expression or by words: a pure function of the tools and the query.

Both look at names, descriptions, and the names and descriptions of arguments, and return the five best matches, as
Anthropic's searches do. A pattern is searched in linear time (RE2). Words are ranked with BM25.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from trilogue.model import Json
from trilogue.policies.patterns import LinearPattern, PatternProblem
from trilogue.translate.content.continuation import Searched
from trilogue.translate.tools.deferred import DeferredTool

MOST = 5
"""how many tools a search returns"""
LONGEST = 200
"""characters of a pattern, as at Anthropic"""
_DEEPEST = 8
"""how deep descriptions of arguments are read"""

_K1, _B = 1.2, 0.75
_NAME_WEIGHT = 3
"""how often a word of the name counts: a name says what a tool does in few words"""
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FLAGS = re.compile(r"\(\?([aiLmsux]+)\)")
_OF_TEXT = "aLu"
"""flags about the kind of text, which RE2 does not have"""
_NEEDS_PACKAGE = "google-re2"


def find_tools(tools: tuple[DeferredTool, ...], query: str, is_pattern: bool, most: int | None = None) -> Searched:
    """Return the tools that a query finds, the best first, or why it could not be searched for."""
    limit = min(most or MOST, MOST)
    if not is_pattern:
        return Searched(_of_group(tools, query) or tuple(by_words(tools, query)[:limit]))
    if len(query) > LONGEST:
        return Searched(error=f"the pattern is longer than {LONGEST} characters")
    try:
        return Searched(tuple(by_pattern(tools, query)[:limit]))
    except PatternProblem as problem:
        if _NEEDS_PACKAGE in str(problem):
            # Python's own engine can take forever, so the pattern is taken for words.
            return Searched(tuple(by_words(tools, query)[:limit]))
        return Searched(error=f"invalid pattern: {problem}")


def by_pattern(tools: Sequence[DeferredTool], pattern: str) -> list[DeferredTool]:
    """Return the tools that match: first by name, then by description, then by arguments. Raises PatternProblem."""
    compiled = _compiled(pattern)
    ranked: list[tuple[int, DeferredTool]] = []
    for tool in tools:
        places = ([_full_name(tool), tool.name], [tool.description], arguments_of(tool.parameters))
        hit = (n for n, texts in enumerate(places) if any(compiled.search(text) is not None for text in texts))
        rank = next(hit, None)
        if rank is not None:
            ranked.append((rank, tool))
    return [tool for _, tool in sorted(ranked, key=lambda one: one[0])]


def _compiled(pattern: str) -> LinearPattern:
    flags = _FLAGS.match(pattern)
    if flags is None:
        return LinearPattern(pattern)
    # Patterns of settings may stand anywhere in another one, so that flags need a group.
    kept, rest = "".join([flag for flag in flags[1] if flag not in _OF_TEXT]), pattern[flags.end() :]
    return LinearPattern(f"(?{kept}:{rest})" if kept else rest)


def by_words(tools: Sequence[DeferredTool], query: str) -> list[DeferredTool]:
    """Return the tools that have words of the query, ranked with BM25. Of equal ones the first comes first."""
    wanted = set(_words(query))
    documents = [_counted(tool) for tool in tools]
    average = sum(map(Counter.total, documents)) / max(1, len(documents))
    weights = {word: _rarity(word, documents) for word in wanted}
    scores = [_score(document, weights, average) for document in documents]
    places = sorted([n for n, score in enumerate(scores) if score > 0], key=lambda n: -scores[n])
    return [tools[place] for place in places]


def _rarity(word: str, documents: list[Counter[str]]) -> float:
    having = sum(word in document for document in documents)
    return math.log(1 + (len(documents) - having + 0.5) / (having + 0.5))


def _score(document: Counter[str], weights: dict[str, float], average: float) -> float:
    length = _K1 * (1 - _B + _B * document.total() / (average or 1))
    return sum(weight * document[word] * (_K1 + 1) / (document[word] + length) for word, weight in weights.items())


def _counted(tool: DeferredTool) -> Counter[str]:
    counted: Counter[str] = Counter(_words(_full_name(tool)) * _NAME_WEIGHT)
    for text in (tool.description, tool.group, *arguments_of(tool.parameters)):
        counted.update(_words(text))
    return counted


def _full_name(tool: DeferredTool) -> str:
    return f"{tool.namespace}__{tool.name}" if tool.namespace else tool.name


def _words(text: str) -> list[str]:
    """Return the words of a text in lower case, without the plural's s; `getWeatherNow` has three."""
    found = [word.lower() for word in _WORD.findall(_HUMP.sub(" ", text))]
    return [word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word for word in found]


def _of_group(tools: tuple[DeferredTool, ...], query: str) -> tuple[DeferredTool, ...]:
    """Return all tools of a namespace, if the query is its name: OpenAI's search finds whole namespaces."""
    return tuple([tool for tool in tools if tool.namespace == query.strip()])


def arguments_of(schema: Json, depth: int = 0) -> list[str]:
    """Return the names and descriptions of all arguments, those of nested objects too."""
    return list(_arguments(schema, depth))


def _arguments(schema: Json, depth: int) -> Iterator[str]:
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        yield name
        if isinstance(inner, dict) and isinstance(inner.get("description"), str):
            yield inner["description"]
        yield from _arguments(inner, depth + 1)
    yield from _arguments(schema.get("items"), depth + 1)

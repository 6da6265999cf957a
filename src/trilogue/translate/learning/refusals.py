"""Find the parameters that an upstream refuses in its error, and what it accepts instead.

In: a failure that a codec decoded, and the body that was sent. Out: remedies for fields that are in that body. It does
not know the vendor: 26 vendors use the same few statements in about twenty forms (`_FORMS`), in any envelope.

texts of the error → a form that matches → the field that it names, found in the body → the values or limit it gives

It never guesses: an error that could mean two fields, or a field that cannot be left out, gives no remedy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

from trilogue.base.json_text import parse_object
from trilogue.model import Failure, FailureKind, Json, Protocol
from trilogue.protocols.registry import CODECS
from trilogue.translate.learning.options import usable
from trilogue.translate.learning.remedies import (
    EFFORTS,
    LEVELS,
    Remedy,
    Spot,
    alike,
    find_field,
    find_value,
    kind_of,
    remedied,
)

_Wire = dict[str, Json]

# Mistral and FastAPI servers use 422; all others use 400.
_STATUSES = frozenset({400, 422})
_KINDS = frozenset({FailureKind.INVALID_REQUEST, FailureKind.UNSUPPORTED})
# Limits for everything that is searched: some errors repeat the whole request.
_MAX_TEXT, _MAX_TEXTS, _MAX_SAID = 4_000, 50, 12_000
_MAX_NAMES, _MAX_MATCHES, _MAX_DEPTH, _MAX_REMEDIES = 100, 20, 16, 8
_MAX_WALKED, _LEAST_ECHO = 50_000, 20
_FLAGS = re.IGNORECASE | re.ASCII

_ECHOES = frozenset({"input", "ctx", "failed_generation", "url", "doc_url", "@type"})
"""fields of an error that repeat the request, or have no text for people"""
_OTHER = re.compile(
    r"context (?:length|window|limit|size)|prompt is too long|api key|credit balance"
    r"|tool call validation|invalid schema|for '\w{1,20}' type, property",
    _FLAGS,
)
"""errors that name parameters although they refuse none"""
_TOGETHER = re.compile(r"\b(?:when|while|both|together|incompatible|tools with|thinking mode|non-streaming)\b", _FLAGS)
"""words that show that a field is refused only together with another one"""
_FOR_THIS_REQUEST = re.compile(
    r"\b(?:prompt|input) (?:uses|has|tokens|length)|\bremaining\b|\byour tier\b|\bbecause\b", _FLAGS
)
"""words that show that a limit depends on this request, or on the account"""

_LOCATED = re.compile(
    r"""['"]loc['"]: ?[\[(](?P<place>[^\])]{1,300})[\])], ?"""
    r"""['"]msg['"]: ?(?P<quote>['"])(?P<says>.{1,300}?)(?P=quote)[,}]""",
    _FLAGS,
)
"""one entry of a list of pydantic errors, as Python or JSON text"""

_PHRASES = (
    (re.compile(r"\b(?:think value|reasoning value|reasoning effort)\b", _FLAGS), "reasoning_effort"),
    (re.compile(r"\beffort level\b", _FLAGS), "effort"),
    (re.compile(r"\bencrypted content\b", _FLAGS), "reasoning.encrypted_content"),
    (re.compile(r"\badaptive thinking\b", _FLAGS), "thinking.type.adaptive"),
    (re.compile(r"\breasoning prompt mode\b", _FLAGS), "prompt_mode"),
    (re.compile(r"\bmaximum tokens\b", _FLAGS), "max_tokens"),
    (re.compile(r" -> "), "."),
)
"""what vendors call fields in prose, and the names of these fields"""

_OLDER = {"max_completion_tokens": "max_tokens"}
"""Servers without a field have the older one: Mistral and old versions of vLLM, whose errors do not mention it."""

_OFF = (
    "reasoning.effort[none]", "reasoning.enabled[false]", "reasoning_effort[none]", "output_config.effort[none]",
    "thinking[disabled]", "enable_thinking[false]",
)  # fmt: skip
"""all ways to ask for no thinking"""
_GOES_WITH = {"thinking[enabled]": "budget_tokens"}
"""a field that an object of this type has and objects of other types must not have"""

_QUOTE = r"[`'\"]?"
_NAME = r"[a-z_][\w.\[\]]{0,119}"
_NAMES = rf"{_QUOTE}{_NAME}{_QUOTE}(?:, {_QUOTE}{_NAME}{_QUOTE}){{0,19}}"
_TOKEN = rf"(?<![\w.\[\]-]){_QUOTE}{_NAME}{_QUOTE}"
_FIELD = rf"(?<![\w.\[\]-]){_QUOTE}(?P<field>{_NAME}){_QUOTE}"
_QUOTED = r"[`'\"](?P<value>[^`'\"\n]{1,80})[`'\"]"
_BARE = r"(?P<bare>[\w.-]{1,40})"
_ITEM = r"[`'\"]?[\w.-]{1,40}[`'\"]?"
_MORE_ITEMS = rf"(?:(?:, ?(?:and |or )?| and | or ){_ITEM}){{0,19}}"
_REFUSED = r"(?:not supported|unsupported|deprecated|not enabled|unavailable|not available|not allowed|not permitted)"


class _Form(Struct, frozen=True):
    """One form of a sentence that refuses something.

    Groups: `field` or `fields`; `place`: the object it is in; `value` or `bare`: the refused value; `typed`: the type
    of that object is refused. `needs`: a refusal only if the text also says what is accepted. `unknown`: the upstream
    does not have the field at all. `subject`: what looks like a field may be the value of one.
    """

    pattern: re.Pattern[str]
    needs: bool = False
    unknown: bool = False
    subject: bool = False


def _form(pattern: str, *, needs: bool = False, unknown: bool = False, subject: bool = False) -> _Form:
    return _Form(re.compile(pattern, _FLAGS), needs, unknown, subject)


_FORMS = (
    _form(
        r"\b(?:unsupported|unknown|unrecogni[sz]ed|unexpected) (?:request |keyword )?(?:parameter|argument|field|key)s?"
        rf"(?:\(s\))?(?: supplied)?:? (?P<fields>{_NAMES})",
        unknown=True,
    ),
    _form(rf"\b(?:does not support parameters?:|properties are not allowed) [\[(](?P<fields>{_NAMES})", unknown=True),
    _form(r"(?:#/(?P<place>[\w/]{1,120}): )?extraneous key \[(?P<field>\w{1,120})\] is not permitted", unknown=True),
    _form(rf"\bunknown name {_FIELD}(?: at '(?P<place>[^'\n]{{1,200}})')?: cannot find field", unknown=True),
    _form(rf"(?:'(?P<place>[\w.\[\]]{{1,120}})' ?: )?property {_FIELD} is unsupported", unknown=True),
    _form(rf"{_FIELD}:?\s{{1,4}}extra (?:inputs|fields) (?:are )?not permitted", unknown=True),
    _form(rf"\bextra inputs are not permitted, field: {_FIELD}", unknown=True),
    _form(rf"\b(?:argument|parameter) not supported(?: (?:on|by|with|for) this model)?: {_FIELD}"),
    _form(rf"\bcannot specify both {_TOKEN} and {_FIELD}"),
    _form(rf"{_TOKEN} and {_FIELD} cannot both be"),
    _form(rf"{_FIELD}(?: parameter)? does not support (?:{_QUOTED}|{_BARE})"),
    _form(
        rf"\bdoes not support (?:the |this |parameter ){{0,2}}{_FIELD}(?: {_QUOTED})?(?: parameter| field| option)?"
        r"(?=\s{0,4}(?:[.,;!]|$)| (?:with|for|on) )"
    ),
    _form(
        rf"{_FIELD}(?: (?P<typed>(?:of )?type))?(?: {_QUOTED}|={_BARE})? (?:is |are )?"
        rf"(?:incompatible with|{_REFUSED})(?! to\b)",
        subject=True,
    ),
    _form(rf"{_FIELD}: (?P<typed>type) (?P<bare>{_ITEM}{_MORE_ITEMS}) (?:is|are) not supported"),
    _form(rf"{_FIELD} (?:may not be enabled|may only be (?:set|specified)|is only allowed when|must be unset)\b"),
    _form(rf"\binvalid {_FIELD}: only \S{{1,20}} is allowed"),
    _form(rf"{_FIELD}: (?P<typed>input should be a valid string)"),
    _form(rf"{_FIELD}: (?P<typed>input tag) {_QUOTED}", needs=True),
    _form(rf"{_FIELD}: unknown variant {_QUOTED}", needs=True),
    _form(rf"{_FIELD} (?P<typed>type) must be one of\b", needs=True),
    _form(rf"{_FIELD}(?: \([^()\n]{{1,80}}\)| for \S{{1,80}})?:? (?:must|should|input should) be\b", needs=True),
    _form(rf"\binvalid value: {_FIELD}", needs=True, subject=True),
    _form(rf"{_FIELD} is not one of\b", needs=True, subject=True),
    _form(rf"\binvalid (?:value for )?{_FIELD}(?: type)?: ", needs=True),
    _form(rf"{_FIELD} is too (?:large|small|high|low)\b", needs=True),
    _form(rf"{_FIELD}: \d{{1,15}} > ", needs=True),
    _form(rf"{_FIELD} you requested exceeds\b", needs=True),
    _form(rf"\bis (?:greater than the maximum|less than the minimum) of \S{{1,20}} - {_FIELD}", needs=True),
    _form(rf"\brange (?:of|for) (?:the )?{_FIELD}(?: \w{{1,20}})? (?:is|should be)\b", needs=True),
    _form(rf"\bparameter {_FIELD} specified in the request", needs=True),
)
"""the forms, in the order in which they are tried; the first one that names a field of the body is used"""

_NUMBER = r"[`'\"]?(?P<{}>-?(?:\d{{1,3}}(?:,\d{{3}}){{1,4}}|\d{{1,15}})(?:\.\d{{1,6}})?)(?!\d|\.\d)"
_RANGE = re.compile(rf"(?:between |\[){_NUMBER.format('low')}(?: and |, ?){_NUMBER.format('high')}(?!\))", _FLAGS)
_MOST = re.compile(
    rf"(?:at most|<=|less than or equal to|no more than|not exceed|maximum of|model limit of) {_NUMBER.format('limit')}"
    rf"|> {_NUMBER.format('over')}, which is the maximum",
    _FLAGS,
)
_LEAST = re.compile(rf"(?:at least|>=|greater than or equal to|minimum of) {_NUMBER.format('limit')}", _FLAGS)
_ALLOWED = re.compile(
    rf"(?:supported (?:string )?(?:values|levels)(?: are)?:? |\bone of:? )\[?(?P<listed>{_ITEM}{_MORE_ITEMS})"
    rf"|(?:\bbe|\bexpected(?: tags:)?|\bset \w{{1,40}} to) (?P<quoted>[`'\"][\w.-]{{1,40}}[`'\"]{_MORE_ITEMS})"
    r"|\bmust be set to (?P<switch>true|false)\b",
    _FLAGS,
)
_PLEASE_USE = re.compile(rf"\bplease use (?P<listed>{_ITEM}{_MORE_ITEMS})", _FLAGS)
_SEPARATOR = re.compile(r", ?(?:and |or )?| and | or ", _FLAGS)
_QUOTES = "`'\"."
_RENAMED = re.compile(rf"\b(?:use|moved to) (?:[`'\"](?P<quoted>{_NAME})[`'\"]|(?P<plain>{_NAME}) instead\b)", _FLAGS)
_ALWAYS_ON = re.compile(r"\b(?:reasoning|thinking)\b.{1,80}\bcannot be disabled", _FLAGS)
_UNKNOWN_CODES = frozenset({"unsupported_parameter", "unknown_parameter", "unsupported_value"})
_SENTENCE_STARTS = (".", ":", ";", "(", "[", ",")
_CAMEL = re.compile(r"[a-z][A-Z]")
_PLAIN = re.compile(r"[\w.-]{1,80}", re.ASCII)


class _Clue(NamedTuple):
    """What a text says about a field.

    `tail`: the text up to the next clue. `refused`: the value, or "" if any value is refused.
    """

    form: _Form
    refused: str
    typed: bool
    tail: str
    lasting: bool


def read_refusal(failure: Failure, body: _Wire) -> tuple[Remedy, ...]:
    """Return remedies that change what the upstream refused; none if the request failed for another reason."""
    if failure.status not in _STATUSES or failure.kind not in _KINDS:
        return ()
    texts = [_without_echoes(text, body) for text in dict.fromkeys(_texts(failure))]
    # A refused schema or a long prompt also names parameters, but leaving those out would not help.
    if any(_OTHER.search(text) for text in texts):
        return ()
    param = failure.param or ""
    remedies = [remedy for text in texts for remedy in _read(_in_names(text, body), param, body)]
    found: dict[str, Remedy] = {}
    for remedy in remedies or _by_code(failure.code, param, body):
        found.setdefault(remedy.path, remedy)
    options = [option for remedy in found.values() if (option := usable(remedy, body)) is not None]
    helpful = [remedy for remedy in options if _helps(remedy, body, failure.protocol)]
    return tuple(helpful[:_MAX_REMEDIES])


def _by_code(code: str | None, param: str, body: _Wire) -> list[Remedy]:
    """Return a remedy if only the error code says what is wrong, because the text is in another language."""
    # OpenAI-compatible servers keep the code and `param` in English.
    spot = find_field(body, param) if code in _UNKNOWN_CODES else None
    return [Remedy(path=spot.path, action="drop")] if spot else []


def _helps(remedy: Remedy, body: _Wire, protocol: Protocol | None = None) -> bool:
    if remedy.action == "drop" and protocol is not None and remedy.path in CODECS[protocol].fields.required:
        return False
    return bool(remedied(body, [remedy])[1])


def _texts(failure: Failure) -> Iterator[str]:
    """Yield all texts of the error, wherever they are, with the locations of pydantic errors as paths."""
    remedies = [failure.message]
    _collect(failure.native, remedies, _MAX_DEPTH)
    left = _MAX_SAID
    for whole in dict.fromkeys(remedies):
        text = whole[: min(left, _MAX_TEXT)]
        left -= len(text)
        located = [
            f"{re.sub(r'[^a-zA-Z0-9_,]', '', match['place']).replace(',', '.')}: {match['says']}"
            for match in _LOCATED.finditer(text)
        ]
        # The rest of a pydantic error repeats the request.
        yield from located or [text]


def _collect(value: Json, remedies: list[str], depth: int, parsed: bool = False) -> None:
    """Add all texts inside a value to `said`. JSON inside a text is parsed once."""
    if depth == 0 or len(remedies) >= _MAX_TEXTS:
        return
    if isinstance(value, str):
        inner = None if parsed else parse_object(value)
        if inner is None:
            remedies.append(value)
        else:
            _collect(inner, remedies, depth - 1, parsed=True)
    elif isinstance(value, dict):
        _collect(_texts_of(value), remedies, depth - 1, parsed)
    elif isinstance(value, list):
        for element in value[:_MAX_TEXTS]:
            _collect(element, remedies, depth - 1, parsed)


def _texts_of(value: _Wire) -> list[Json]:
    """Return the texts of an object of an error; a pydantic entry as one text that begins with the path."""
    location, says = value.get("loc"), value.get("msg")
    if isinstance(location, list) and isinstance(says, str):
        parts = [str(part) for part in location[:20] if isinstance(part, str) or part in range(_MAX_TEXT)]
        return [f"{'.'.join(parts)}: {says}"]
    return [element for name, element in value.items() if name not in _ECHOES]


def _without_echoes(text: str, body: _Wire) -> str:
    """Return the text without what it repeats of the request: a client could write there what it likes."""
    waiting: list[Json] = [body]
    for _ in range(_MAX_WALKED):
        if not waiting:
            break
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and len(value) >= _LEAST_ECHO and value in text:
            text = text.replace(value, "…")
    return text


def _in_names(text: str, body: _Wire) -> str:
    """Return the text with the names of fields in place of prose: "web search options" is `web_search_options`."""
    for phrase, name in _PHRASES:
        text = phrase.sub(name, text)
    lower = text.lower()
    for name in list(body)[:_MAX_NAMES]:
        prose = name.replace("_", " ")
        if prose != name and prose in lower:
            text = re.sub(re.escape(prose), name, text, flags=_FLAGS)
    return text


def _read(text: str, param: str, body: _Wire) -> list[Remedy]:
    """Return the remedies that one text of the error asks for."""
    lasting = _TOGETHER.search(text) is None and _FOR_THIS_REQUEST.search(text) is None
    for form in _FORMS:
        matches = [match for match in islice(form.pattern.finditer(text), _MAX_MATCHES) if _is_named(match, param)]
        ends = [*(match.start() for match in matches[1:]), len(text)]
        found: list[Remedy] = []
        for match, end in zip(matches, ends, strict=False):
            refused = _group(match, "value") or _group(match, "bare")
            clue = _Clue(form, refused, bool(_group(match, "typed")), text[match.start() : end], lasting)
            found += _from_match(match, clue, param, body)
        if any(_helps(remedy, body) for remedy in found):
            return found
    return _about_effort(text, body)


def _from_match(match: re.Match[str], clue: _Clue, param: str, body: _Wire) -> list[Remedy]:
    found: list[Remedy] = []
    for quoted in _SEPARATOR.split(_group(match, "fields") or _group(match, "field")):
        name, refused = quoted.strip(_QUOTES), clue.refused
        spot = find_field(body, name, _group(match, "place"))
        if spot is None and clue.form.subject:
            refused = refused or name
            # Without a list of accepted values, a word that occurs somewhere in the body is not enough evidence.
            spot = find_value(body, refused, param, anywhere=bool(_allowed(clue)))
        elif spot is not None and isinstance(spot.value, str) and name.endswith(f".{spot.value}"):
            refused = spot.value  # "thinking.type.enabled"
        if spot is not None:
            found += _remedies(spot, clue._replace(refused=refused))
    return found


def _group(match: re.Match[str], name: str) -> str:
    return match.groupdict().get(name) or ""


def _is_named(match: re.Match[str], param: str) -> bool:
    """Return whether the text means a field: "user" and "text" are ordinary words, too."""
    name = _group(match, "field")
    if not name or match.start("field") != match.start() or name == param or "_" in name or "." in name:
        return True
    before = match.string[: match.start()].rstrip(" \n")
    return not before or before.endswith(_SENTENCE_STARTS) or _CAMEL.search(name) is not None


def _about_effort(text: str, body: _Wire) -> list[Remedy]:
    """Return remedies for an error about thinking that names no field."""
    match = _PLEASE_USE.search(text)
    allowed = _listed(match["listed"]) if match else ()
    remedies: list[Remedy] = []
    if allowed and all(level in LEVELS for level in allowed):
        remedies = [Remedy(path=path, action="clamp", allowed=allowed) for path in EFFORTS]
    elif _ALWAYS_ON.search(text):
        remedies = [Remedy(path=path, action="drop") for path in _OFF]
    return [remedy for remedy in remedies if _helps(remedy, body)]


def _remedies(spot: Spot, clue: _Clue) -> list[Remedy]:
    """Return the remedy for a field that makes the most of what the text says."""
    target = _target(spot, clue)
    if spot.path.endswith(".type") and isinstance(spot.value, str):
        return _retyped(spot, clue, target)
    if target and alike(spot.path, target):
        return [Remedy(path=spot.path, action="rename", name=target, lasting=clue.lasting)]
    limit = _limit(spot.value, clue.tail)
    if limit is not None:
        return [Remedy(path=spot.path, action="clamp", limit=limit[0], least=limit[1], lasting=clue.lasting)]
    allowed = _allowed(clue)
    if allowed and not clue.typed:
        return [Remedy(path=spot.path, action="clamp", allowed=allowed, lasting=clue.lasting)]
    path = _narrowed(spot, clue) if _is_clear(spot.value, clue, allowed) else ""
    return [Remedy(path=path, action="drop", lasting=clue.lasting)] if path else []


def _allowed(clue: _Clue) -> tuple[str, ...]:
    match = None if clue.form.unknown else _ALLOWED.search(clue.tail)
    return _listed(match["listed"] or match["quoted"] or match["switch"]) if match else ()


def _is_clear(value: Json, clue: _Clue, allowed: tuple[str, ...]) -> bool:
    """Return whether the text refuses this value or type. Some forms only do if they also say what is accepted."""
    return kind_of(value) not in allowed if allowed else not clue.form.needs


def _target(spot: Spot, clue: _Clue) -> str:
    """Return the new name of the field, from the text or from what is known about such upstreams; else ""."""
    match = _RENAMED.search(clue.tail)
    if match:
        return match["quoted"] or match["plain"]
    return _OLDER.get(spot.path, "") if clue.form.unknown else ""


def _retyped(spot: Spot, clue: _Clue, target: str) -> list[Remedy]:
    """Return remedies for an object of a refused type: change it to the type that is named, or leave it out."""
    holder = f"{spot.path.removesuffix('.type')}[{spot.value}]"
    if "]" in spot.path or not _PLAIN.fullmatch(spot.value) or not _is_clear(spot.value, clue, _allowed(clue)):
        return []
    if not target.startswith(f"{spot.path}."):
        return [Remedy(path=holder, action="drop", lasting=clue.lasting)]
    other = (target.removeprefix(f"{spot.path}."),)
    retyped = Remedy(path=f"{holder}.type", action="clamp", allowed=other, lasting=clue.lasting)
    extra = _GOES_WITH.get(holder)
    return [Remedy(path=f"{holder}.{extra}", action="drop", lasting=clue.lasting), retyped] if extra else [retyped]


def _narrowed(spot: Spot, clue: _Clue) -> str:
    """Return the path of exactly what is refused: this value, or objects of this type. "" if it is not in the body."""
    kind, is_object = kind_of(spot.value), isinstance(spot.value, dict)
    if not clue.typed and (not (clue.refused and kind and clue.lasting) or is_object or spot.path.endswith("]")):
        return spot.path
    named = [name.lower() for name in _listed(clue.refused)] or [kind.lower()]
    is_meant = is_object == clue.typed and kind.lower() in named and _PLAIN.fullmatch(kind)
    return f"{spot.path}[{kind}]" if is_meant else ""


def _limit(value: Json, text: str) -> tuple[float, bool] | None:
    """Return the limit that a number violates, and whether it is a minimum; None if the text has no limit."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    if match := _RANGE.search(text):
        low, high = _number(match["low"]), _number(match["high"])
        return (low, True) if value < low else (high, False)
    if match := _MOST.search(text):
        return _number(match["limit"] or match["over"]), False
    match = _LEAST.search(text)
    return (_number(match["limit"]), True) if match else None


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _listed(text: str) -> tuple[str, ...]:
    return tuple(item for item in (part.strip(_QUOTES) for part in _SEPARATOR.split(text)) if item)

"""Rows of the mapping as data: a small request or answer, its direction, what must be on the wire and what declared.

`Ask` is a client's request on its way to the upstream, `Answer` an upstream's answer on its way to the client. A pair
is written from where it comes to where it goes: `C>M` is Chat to Messages.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import trilogue
from tests.each import Decorator, each
from trilogue import Loss, Protocol, RequestTranslation, ResponseTranslation, Target

Body = dict[str, Any]
C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
PROTOCOLS = {"C": C, "M": M, "R": R}
CROSS = ("C>M", "C>R", "M>C", "M>R", "R>C", "R>M")
MODELS = {C: "gpt-5.2", M: "claude-opus-5", R: "gpt-5.6"}
"""the models of rows that name none: newer ones on Chat take tools only with a word about reasoning"""
OLD, NEW, COMPAT = "claude-sonnet-4-5", "claude-opus-5", "llama-3.3-70b"
NEWEST = "gpt-5.6"
"""of OpenAI's: reasons unless told not to, and takes cache marks"""
PLAIN = "gpt-4.1"
"""of OpenAI's: does not reason"""

Test = Callable[[Any], bool]


class Missing:
    """Nothing is at that path."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Missing()


@dataclass(frozen=True)
class OneOf:
    """Any of these values: where the mapping leaves a choice."""

    values: tuple[Any, ...]


def one_of(*values: Any) -> OneOf:
    """Any of these values."""
    return OneOf(values)


def pair(text: str) -> tuple[Protocol, Protocol]:
    """The protocols of a direction such as `C>M`."""
    source, _, target = text.partition(">")
    return PROTOCOLS[source], PROTOCOLS[target]


_STEP = re.compile(r"([^.\[\]]+)|\[(-?\d+)\]")


def at(body: Any, path: str) -> Any:
    """The value at a path such as `messages[0].content`; ABSENT where there is none."""
    value = body
    for name, index in _STEP.findall(path):
        if name:
            value = value.get(name, ABSENT) if isinstance(value, dict) else ABSENT
        else:
            inside = isinstance(value, list) and -len(value) <= int(index) < len(value)
            value = value[int(index)] if inside else ABSENT
        if value is ABSENT:
            return ABSENT
    return value


def text_of(content: Any) -> str:
    """The text of a content that may be a string or a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content or [] if isinstance(part, dict))


def texts(*expected: str) -> Test:
    """A content, string or parts, with exactly these texts."""

    def check(content: Any) -> bool:
        found = [content] if isinstance(content, str) else [part.get("text") for part in content]
        return bool(found == list(expected))

    return check


def holds(*words: str) -> Test:
    """A value in whose text all these words occur, in this order."""

    def check(value: Any) -> bool:
        start = 0
        text = value if isinstance(value, str) else str(value)
        for word in words:
            start = text.find(word, start) + 1
            if not start:
                return False
        return True

    return check


def like(**expected: Any) -> Test:
    """An object with at least these fields."""

    def check(value: Any) -> bool:
        return isinstance(value, dict) and all(fits(value.get(name, ABSENT), want) for name, want in expected.items())

    return check


def fits(value: Any, want: Any) -> bool:
    """Whether a value is what a row asks for: equal, one of several, or accepted by a test."""
    if isinstance(want, OneOf):
        return any(fits(value, choice) for choice in want.values)
    if callable(want):
        return value is not ABSENT and bool(want(value))
    if want is ABSENT:
        return value is ABSENT or value is None
    return bool(value == want and isinstance(value, bool) == isinstance(want, bool))


@dataclass(frozen=True)
class Ask:
    """A row for a request.

    `lost`: the codes that must be declared, and no others but those in `may`. `refused`: the path of an `Unsupported`.
    `declared`: a path that is either refused or named by a loss. `fields` replace those of a minimal request.
    """

    name: str
    pair: str
    fields: Body
    wire: Body = field(default_factory=dict)
    lost: str = ""
    may: str = ""
    refused: str | None = None
    declared: str | None = None
    model: str = ""
    vendor: str = ""
    repair: bool = False

    @property
    def source(self) -> Protocol:
        """Whose request it is."""
        return pair(self.pair)[0]

    @property
    def target(self) -> Target:
        """Where it goes."""
        protocol = pair(self.pair)[1]
        return Target.of(protocol, self.model or MODELS[protocol], vendor=self.vendor)

    @property
    def body(self) -> Body:
        """The whole request."""
        return request(self.source, **self.fields)

    def run(self, *, strict: bool = False) -> RequestTranslation:
        """Translate it."""
        return trilogue.translate_request(
            self.body, source=self.source, target=self.target, strict=strict, repair=self.repair
        )


@dataclass(frozen=True)
class Answer:
    """A row for an answer. `asked`: the client's request that it answers, as fields of a minimal one."""

    name: str
    pair: str
    fields: Body
    wire: Body = field(default_factory=dict)
    lost: str = ""
    may: str = ""
    asked: Body | None = None
    model: str = ""

    @property
    def body(self) -> Body:
        """The upstream's whole answer."""
        return answer(pair(self.pair)[0], **self.fields)

    @property
    def request(self) -> Body | None:
        """The client's whole request, if the row has one."""
        return None if self.asked is None else request(pair(self.pair)[1], **self.asked)

    def run(self) -> ResponseTranslation:
        """Translate it, after the request that it answers."""
        upstream, client = pair(self.pair)
        exchange = None
        if self.request is not None:
            target = Target.of(upstream, self.model or MODELS[upstream])
            exchange = trilogue.translate_request(self.request, source=client, target=target).exchange
        return trilogue.translate_response(self.body, source=upstream, target=client, exchange=exchange)


def rows(cases: Iterable[Ask | Answer]) -> Decorator:
    """A test of all these rows."""
    return each("case", cases, ids=lambda case: f"{case.pair}-{case.name}".replace(" ", "_"))


def codes(losses: Iterable[Loss]) -> set[str]:
    """The codes of some losses."""
    return {loss.code for loss in losses}


def names(losses: Iterable[Loss], path: str) -> bool:
    """Whether a loss names a path, something above it or something below it."""
    return any(covers(loss.path, path) or covers(path, loss.path) for loss in losses)


def covers(prefix: str, path: str) -> bool:
    """Whether a path is another one or something inside it."""
    return path == prefix or path.startswith((prefix + ".", prefix + "["))


def check_ask(case: Ask) -> None:
    """The row holds for a request."""
    if case.refused is not None or case.declared is not None:
        check_given_up(case)
        return
    translated = case.run()
    check_wire(translated.body, case.wire)
    check_codes(translated.losses, case)


def check_given_up(case: Ask) -> None:
    """The row's field is refused by its path, or, where the row allows it, declared as lost."""
    path = case.refused if case.refused is not None else case.declared or ""
    refusal = ""
    try:
        translated = case.run()
    except trilogue.ClientError as error:
        refusal = error.path
    if refusal:
        assert covers(path, refusal) or covers(refusal, path), f"refused at {refusal!r}, not {path!r}"
        return
    assert case.declared is not None, f"not refused; losses {[str(loss) for loss in translated.losses]}"
    assert names(translated.losses, path), (
        f"{path} is neither refused nor in {[str(loss) for loss in translated.losses]}"
    )
    check_wire(translated.body, case.wire)


def check_answer(case: Answer) -> None:
    """The row holds for an answer."""
    translated = case.run()
    check_wire(translated.body, case.wire)
    check_codes(translated.losses, case)


def check_wire(body: Body, wire: Body) -> None:
    """Everything that a row wants is in a body."""
    for path, want in wire.items():
        value = at(body, path)
        assert fits(value, want), f"{path} is {value!r}, wanted {want!r}, in {body!r}"


def check_codes(losses: Iterable[Loss], case: Ask | Answer) -> None:
    """What is declared is what the row says, no more and no less."""
    listed = list(losses)
    wanted, allowed = set(case.lost.split()), set(case.may.split())
    found = codes(listed)
    shown = [str(loss) for loss in listed]
    assert wanted <= found, f"not declared: {sorted(wanted - found)}; declared: {shown}"
    assert found <= wanted | allowed, f"declared without reason: {sorted(found - wanted - allowed)}; all: {shown}"


USER: Body = {"role": "user", "content": "Hi"}

_REQUESTS: dict[Protocol, Body] = {
    C: {"model": "asked-for", "max_completion_tokens": 4000, "messages": [USER]},
    M: {"model": "asked-for", "max_tokens": 4000, "messages": [USER]},
    R: {"model": "asked-for", "max_output_tokens": 4000, "input": "Hi"},
}


def request(protocol: Protocol, **fields: Any) -> Body:
    """A minimal request with these fields; a field that is ABSENT is left out."""
    merged = {**_REQUESTS[protocol], **fields}
    return {name: value for name, value in merged.items() if value is not ABSENT}


_ANSWERS: dict[Protocol, Body] = {
    C: {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1763200000,
        "model": "gpt-5.6",
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi", "refusal": None}}
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
    },
    M: {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 4},
    },
    R: {
        "id": "resp_1",
        "object": "response",
        "created_at": 1763200000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": "gpt-5.6",
        "output": [
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}],
            }
        ],
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "metadata": {},
        "usage": {
            "input_tokens": 9,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 4,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 13,
        },
    },
}


def answer(protocol: Protocol, **fields: Any) -> Body:
    """A minimal answer with these fields."""
    merged = {**_ANSWERS[protocol], **fields}
    return {name: value for name, value in merged.items() if value is not ABSENT}


def choice(finish_reason: str | None = "stop", **message: Any) -> list[Body]:
    """The choices of a Chat answer."""
    said = {"role": "assistant", "content": None, "refusal": None, **message}
    return [{"index": 0, "finish_reason": finish_reason, "message": said}]


def message_item(*parts: Body, **fields: Any) -> Body:
    """A Responses output message."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": list(parts),
        **fields,
    }


def output_text(text: str, **fields: Any) -> Body:
    """A Responses text part."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": [], **fields}

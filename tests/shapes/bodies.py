"""The shape of a whole response: which fields, blocks or items it holds, and how it ended.

In: the body of a response. Out: one line of tokens, such as `thinking text(citation) stop:end_turn`.
"""

from typing import Any

from tests.shapes.repeats import collapse
from tests.shapes.streams import block, item, kinds
from trilogue import Protocol

Body = dict[str, Any]


def shape(protocol: Protocol, body: Body) -> str:
    """Return the shape of a whole response."""
    return " ".join(_READERS[protocol](body))


def _chat(body: Body) -> list[str]:
    tokens = ["error"] if body.get("error") else []
    for choice in body.get("choices") or []:
        fields = (choice.get("message") or {}).items()
        named = [(name, value) for name, value in fields if value not in (None, "", [], {}) and name != "role"]
        tokens += sorted(f"{name}[{kinds(value)}]" if isinstance(value, list) else name for name, value in named)
        tokens += ["logprobs"] if any((choice.get("logprobs") or {}).values()) else []
        tokens.append(f"finish:{choice.get('finish_reason') or '-'}")
    return [*tokens, "usage"] if body.get("usage") else tokens


def _messages(body: Body) -> list[str]:
    blocks = [_cited(block(value), value.get("citations")) for value in body.get("content") or []]
    return [*_collapsed(blocks), f"stop:{body.get('stop_reason')}"]


def _cited(kind: str, citations: list[Body] | None) -> str:
    name = kind.removesuffix("(filled)")
    return f"{name}[{kinds(citations)}]" if citations else name


def _responses(body: Body) -> list[str]:
    items = [_parts(item(value), value) for value in body.get("output") or []]
    reason = (body.get("incomplete_details") or {}).get("reason")
    return [*_collapsed(items), f"status:{body.get('status')}" + (f":{reason}" if reason else "")]


def _parts(kind: str, value: Body) -> str:
    if kind != "message":
        return kind
    parts = {_cited(str(part.get("type")), part.get("annotations")) for part in value["content"]}
    return f"{kind}({';'.join(sorted(parts))})"


def _collapsed(tokens: list[str]) -> list[str]:
    line = collapse(tokens, lambda _: False)
    return [line] if line else []


_READERS = {Protocol.CHAT: _chat, Protocol.MESSAGES: _messages, Protocol.RESPONSES: _responses}

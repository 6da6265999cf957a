"""Random Chat messages with any of their fields, whole and streamed in several ways: a client must not notice.

Text, refusal, reasoning, calls, audio, citations, usage and stop reason are those of the whole message, in what the
official accumulators make of the stream as well. The other two protocols are in `test_streams_properties.py`.
"""

from __future__ import annotations

import json
from random import Random

import pytest

from tests.judges import sdk
from tests.mapping.cases import Body, C, M, R
from trilogue import Protocol, StreamTranslator, collect_stream, translate_response

SEEDS = 60
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon")
CITED = [
    {"type": "url_citation", "url_citation": {"url": "https://x.test", "title": "t", "start_index": 0, "end_index": 2}}
]


class Draw:
    """A random message, its usage and its finish_reason."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self._words = 0
        self.message: Body = {"role": "assistant", "content": None, **self._reasoning()}
        if self._is(0.6):
            self.message["content"] = self._text()
            if self._is(0.2):
                self.message["annotations"] = CITED
        if self._is(0.2):
            self.message["refusal"] = self._text()
        if self._is(0.25):
            words = self.message["content"] if self._is(0.5) and self.message["content"] else self._text()
            self.message["audio"] = {"id": "audio_1", "data": "AAAA", "transcript": words}
        self.message |= self._calls()
        self.finish = self._finish()
        self.usage = self._usage()
        self.says = f"seed {seed}: {json.dumps(self.message)} {self.finish} {self.usage}"

    def _is(self, share: float) -> bool:
        return self.rng.random() < share

    def _text(self) -> str:
        self._words += 1
        return " ".join(f"{self.rng.choice(WORDS)}{self._words}" for _ in range(self.rng.randint(1, 4)))

    def _reasoning(self) -> Body:
        text = self._text()
        piece = {"type": "reasoning.text", "text": text, "index": 0}
        summary = {"type": "reasoning.summary", "summary": text, "index": 0}
        encrypted = {"type": "reasoning.encrypted", "data": "ENC==", "index": 1}
        block = {"type": "thinking", "thinking": text, "signature": "SIGNED=="}
        ways: list[Body] = [
            {},
            {},
            {self.rng.choice(["reasoning", "reasoning_content", "thinking"]): text},
            {"reasoning": text, "reasoning_content": text},
            {"reasoning": text, "reasoning_details": [piece]},
            {"reasoning": text, "reasoning_details": [{**piece, "signature": "SIGNED=="}]},
            {"reasoning": text, "reasoning_details": [summary, encrypted]},
            {"reasoning_details": [summary, encrypted]},
            {"thinking_blocks": [block]},
            {"reasoning_content": text, "thinking_blocks": [block]},
        ]
        return self.rng.choice(ways)

    def _calls(self) -> Body:
        bodies = [{"name": "f", "arguments": json.dumps({"a": self._text()})} for _ in range(self.rng.randint(1, 3))]
        calls = [{"id": f"call_{number}", "type": "function", "function": body} for number, body in enumerate(bodies)]
        return self.rng.choice([{}, {}, {"tool_calls": calls}, {"function_call": bodies[0]}])

    def _finish(self) -> str:
        if "tool_calls" in self.message:
            return self.rng.choice(["tool_calls", "stop"])
        return "function_call" if "function_call" in self.message else self.rng.choice(["stop", "length"])

    def _usage(self) -> Body | None:
        prompt, completion = self.rng.randint(0, 50), self.rng.randint(0, 20)
        plain: Body = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        read = self.rng.randint(0, prompt)
        details = {"cached_tokens": read, "cache_write_tokens": self.rng.randint(0, prompt - read)}
        thought = {"reasoning_tokens": self.rng.randint(0, completion)}
        full = {**plain, "prompt_tokens_details": details, "completion_tokens_details": thought}
        return self.rng.choice([None, plain, full])

    def cut(self, text: str) -> list[str]:
        """A text in pieces."""
        places = sorted(self.rng.sample(range(1, len(text)), min(3, len(text) - 1)))
        return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]

    def whole(self) -> Body:
        """The response of a client that does not stream."""
        choice = {"index": 0, "message": self.message, "finish_reason": self.finish}
        body: Body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        return body if self.usage is None else {**body, "usage": self.usage}


def in_pieces(drawn: Draw) -> list[Body]:
    """The deltas as servers send them: one field after the other, but audio may come between the texts."""
    message = drawn.message
    deltas: list[Body] = [{"role": "assistant", "content": ""}, *reasoning_pieces(drawn)]
    texts: list[Body] = (
        [{"content": piece} for piece in drawn.cut(message["content"] or "")] if message["content"] else []
    )
    clip = message.get("audio")
    spoken: list[Body] = (
        [{"audio": {"id": clip["id"], "transcript": piece}} for piece in drawn.cut(clip["transcript"])] if clip else []
    )
    while texts or spoken:
        deltas.append(drawn.rng.choice([rest for rest in (texts, spoken) if rest]).pop(0))
    if clip:
        deltas.append({"audio": {"data": clip["data"]}})
    if "annotations" in message:
        deltas.append({"annotations": message["annotations"]})
    deltas += [{"refusal": piece} for piece in drawn.cut(message["refusal"])] if "refusal" in message else []
    for index, call in enumerate(message.get("tool_calls", [])):
        arguments = drawn.cut(call["function"]["arguments"])
        deltas.append({"tool_calls": [{**call, "index": index, "function": {"name": "f", "arguments": ""}}]})
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in arguments]
    if "function_call" in message:
        deltas.append({"function_call": {"name": "f", "arguments": ""}})
        deltas += [
            {"function_call": {"arguments": piece}} for piece in drawn.cut(message["function_call"]["arguments"])
        ]
    return deltas


def reasoning_pieces(drawn: Draw) -> list[Body]:
    """Reasoning in all of its fields at once; what closes it comes last."""
    message = drawn.message
    plain = [name for name in ("reasoning", "reasoning_content", "thinking") if name in message]
    details = message.get("reasoning_details", [])
    blocks = message.get("thinking_blocks", [])
    kind = "summary" if details and "summary" in details[0] else "text"
    texts = [message[name] for name in plain] + [entry[kind] for entry in details[:1]]
    texts += [block["thinking"] for block in blocks]
    deltas: list[Body] = []
    for piece in drawn.cut(texts[0]) if texts else []:
        delta: Body = dict.fromkeys(plain, piece)
        if details:
            delta["reasoning_details"] = [{"type": details[0]["type"], kind: piece, "index": 0}]
        if blocks:
            delta["thinking_blocks"] = [{"type": "thinking", "thinking": piece, "signature": None}]
        deltas.append(delta)
    for entry in details:
        rest = {name: value for name, value in entry.items() if name not in ("text", "summary")}
        if {"signature", "data"} & rest.keys():
            deltas.append({"reasoning_details": [rest]})
    deltas += [{"thinking_blocks": [{**block, "thinking": ""}]} for block in blocks]
    return deltas


def in_one(drawn: Draw) -> list[Body]:
    """Everything in one delta."""
    calls = [{**call, "index": index} for index, call in enumerate(drawn.message.get("tool_calls", []))]
    return [{**drawn.message, **({"tool_calls": calls} if calls else {})}]


def stream(drawn: Draw, deltas: list[Body], *, together: bool) -> bytes:
    """The stream. `together`: the end is in the same chunk as the last delta, with the usage."""
    base: Body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    last = [(deltas[-1], drawn.finish)] if together else [(deltas[-1], None), ({}, drawn.finish)]
    parts = [(delta, None) for delta in deltas[:-1]] + last
    chunks = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]} for delta, end in parts]
    if drawn.usage is not None and together:
        chunks[-1]["usage"] = drawn.usage
    elif drawn.usage is not None:
        chunks.append({**base, "choices": [], "usage": drawn.usage})
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


def seen(protocol: Protocol, body: Body) -> Body:
    """What a client makes of a response."""
    return _SEEN[protocol](body)


def _of_chat(body: Body) -> Body:
    choice = body["choices"][0]
    message = choice["message"]
    calls = [call["function"] for call in message.get("tool_calls") or []]
    values = ("type", "text", "summary", "signature")
    details = message.get("reasoning_details") or []
    return {
        "text": message.get("content") or "",
        "refusal": message.get("refusal") or "",
        "reasoning": message.get("reasoning_content") or "",
        "details": [[entry.get(name) for name in values] for entry in details],
        "calls": [(call["name"], call["arguments"]) for call in calls],
        "audio": {name: value for name, value in (message.get("audio") or {}).items() if value is not None},
        "cited": len(message.get("annotations") or []),
        "stop": choice["finish_reason"],
        "usage": body.get("usage"),
    }


def _of_messages(body: Body) -> Body:
    content = body["content"]
    usage = {name: value for name, value in body["usage"].items() if value is not None}
    return {
        "text": [block["text"] for block in content if block["type"] == "text"],
        "reasoning": [
            (block["thinking"], block["signature"] != "") for block in content if block["type"] == "thinking"
        ],
        "calls": [(block["name"], block["input"]) for block in content if block["type"] == "tool_use"],
        "kinds": [block["type"] for block in content],
        "stop": body["stop_reason"],
        "usage": usage,
    }


def _of_responses(body: Body) -> Body:
    items = body["output"]
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    thoughts = [item for item in items if item["type"] == "reasoning"]
    texts = [[part["text"] for part in [*item["summary"], *(item.get("content") or [])]] for item in thoughts]
    return {
        "text": [part.get("text") or part.get("refusal") for part in parts],
        "cited": [len(part.get("annotations") or []) for part in parts],
        "reasoning": texts,
        "sealed": [bool(item.get("encrypted_content")) for item in thoughts],
        "calls": [(item["name"], item["arguments"]) for item in items if item["type"] == "function_call"],
        "kinds": [item["type"] for item in items],
        "stop": (body["status"], body.get("incomplete_details")),
        "usage": body.get("usage"),
    }


_SEEN = {C: _of_chat, M: _of_messages, R: _of_responses}


@pytest.mark.parametrize("target", [C, M, R], ids=["chat", "messages", "responses"])
def test_a_stream_is_the_whole_message_in_pieces(target: Protocol) -> None:
    """Nothing twice, nothing lost, and the same losses."""
    for seed in range(SEEDS):
        drawn = Draw(seed)
        whole = translate_response(drawn.whole(), source=C, target=target)
        expected = seen(target, whole.body)
        ways: list[tuple[list[Body], bool]] = [(in_pieces(drawn), False), (in_one(drawn), False), (in_one(drawn), True)]
        for deltas, together in ways:
            translator = StreamTranslator(source=C, target=target)
            out = translator.feed(stream(drawn, deltas, together=together)) + translator.close()
            says = f"{drawn.says} as {deltas}"
            assert seen(target, collect_stream(out, protocol=target)) == expected, says
            verdict = sdk.accumulate(target, out)
            assert verdict.error is None, f"{verdict.error!r} {says}"
            assert verdict.final is not None
            found = seen(target, verdict.final)
            assert {**found, "usage": None} == {**expected, "usage": None}, says
            losses = {loss.code for loss in translator.losses}
            assert losses == {loss.code for loss in whole.losses}, says

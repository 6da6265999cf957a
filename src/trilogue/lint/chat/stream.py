"""Rules B for a Chat Completions stream.

In: the JSON object of each event. Out: findings in the report. What holds at the end of a choice is in `body.py`.
"""

from __future__ import annotations

from msgspec import Struct, field

from trilogue.lint.chat.body import ChatChoice, ChatToolCall, check_choice, check_envelope, check_usage
from trilogue.lint.definition import ExpectedResponse
from trilogue.lint.json_values import arr, is_int, obj, objects, one_of, text
from trilogue.lint.openai import CLIENT_TOOLS, error_problems
from trilogue.lint.rules import LintReport
from trilogue.model import Json

_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
# id -> the field that all chunks share
_SHARED = {"B01": "id", "B02": "created", "B03": "model"}


class _OpenChoice(Struct):
    """What a stream has sent of one choice so far."""

    path: str
    has_delta: bool = False
    has_role: bool = False
    has_content: bool = False
    finish: Json = None
    content: list[str] = field(default_factory=list)
    calls: dict[int, ChatToolCall] = field(default_factory=dict)
    pieces: dict[int, list[str]] = field(default_factory=dict)
    """the arguments of each call"""
    last_call: int = 0
    tokens: list[bytes] | None = None
    is_legacy: bool = False
    is_refused: bool = False

    def whole(self) -> ChatChoice:
        """Return the choice, put together from its deltas."""
        for index, call in self.calls.items():
            call.arguments = "".join(self.pieces[index])
        calls = list(self.calls.values())
        return ChatChoice(self.path, "".join(self.content), calls, self.finish, self.is_legacy, self.is_refused)


class ChatStream:
    """Checks the chunks of one Chat Completions stream."""

    def __init__(self, report: LintReport, expected: ExpectedResponse) -> None:
        self._report = report
        self._expected = expected
        self._choices: dict[int, _OpenChoice] = {}
        self._shared: dict[str, Json] = {}
        self._reasoning_field = ""
        self._has_usage = False
        self._has_done = False
        self._has_failed = False

    def event(self, name: str, chunk: dict[str, Json]) -> None:
        """Check one chunk; `name` is its `event:` line, which Chat does not have."""
        report = self._report
        report.check(not name, "B38", "an event: line")
        if self._has_done:
            report.add("A16", "a chunk after [DONE]")
        elif self._has_failed:
            report.add("B39", "a chunk after the error chunk")
        elif chunk.get("error"):
            self._on_error(chunk)
        else:
            self._on_chunk(chunk)

    def done_marker(self) -> None:
        """Check that `[DONE]` comes once."""
        self._report.check(not self._has_done, "B37", "[DONE] comes twice")
        self._has_done = True

    def close(self) -> None:
        """Check that the stream is complete, and what must hold for its choices then."""
        if self._has_failed:
            return
        is_finished = bool(self._choices) and all(choice.finish is not None for choice in self._choices.values())
        if not self._has_done:
            rule, message = ("B37", "there is no [DONE]") if is_finished else ("A15", "the stream ends without [DONE]")
            self._report.add(rule, message)
        if self._has_done or is_finished:
            self._check_end()

    def _check_end(self) -> None:
        report = self._report
        indices = sorted(self._choices)
        report.check(indices == list(range(len(indices))), "B07", "choice indices have gaps")
        if self._expected.include_usage:
            report.check(self._has_usage, "B29", "there is no usage chunk though include_usage asks for one")
        for choice in self._choices.values():
            if report.check(choice.finish is not None, "B13", f"{choice.path} has no finish_reason"):
                whole = choice.whole()
                check_choice(whole, report, self._expected)
                is_same = choice.tokens is None or b"".join(choice.tokens) == whole.content.encode("utf-8", "replace")
                report.check(is_same, "B47", f"{choice.path} logprobs tokens are not its content")

    def _on_error(self, chunk: dict[str, Json]) -> None:
        self._has_failed = True
        self._report.check("choices" not in chunk, "B48", "a chunk with error and choices")
        for problem in error_problems(obj(chunk["error"])):
            self._report.add("B40", problem)

    def _on_chunk(self, chunk: dict[str, Json]) -> None:
        report = self._report
        # OpenAI itself sends moderation results after the usage. The SDK loses the usage then, so a gateway must not.
        is_moderation = "moderation" in chunk and not report.own
        report.check(not self._has_usage or is_moderation, "B31", "a chunk after the usage chunk")
        report.check(chunk.get("object") == "chat.completion.chunk", "B04", "object is not chat.completion.chunk")
        self._check_shared(chunk)
        check_envelope(chunk, report, self._expected)
        if self._expected.no_padding:
            report.check("obfuscation" not in chunk, "B41", "obfuscation though the request switched it off")
        choices = chunk.get("choices")
        if not report.check(isinstance(choices, list), "B05", "choices is missing or not an array"):
            return
        for entry in objects(choices):
            self._on_entry(entry, is_first=not self._choices, among=objects(choices))
        self._on_usage(chunk)

    def _check_shared(self, chunk: dict[str, Json]) -> None:
        for rule, name in _SHARED.items():
            value = chunk.get(name)
            is_right = is_int(value) if name == "created" else bool(text(value))
            is_same = value == self._shared.setdefault(name, value)
            self._report.check(is_right, rule, f"{name} is missing or of the wrong type")
            self._report.check(is_same, rule, f"{name} changes")

    def _on_usage(self, chunk: dict[str, Json]) -> None:
        report, choices, usage = self._report, arr(chunk.get("choices")), chunk.get("usage")
        if not isinstance(usage, dict):
            is_allowed = bool(choices) or bool(chunk.get("moderation"))
            report.check(is_allowed, "B06", "choices is empty on a chunk without usage")
            if self._expected.include_usage:
                report.check("usage" in chunk, "B32", "a chunk without usage: null")
            return
        self._has_usage = True
        if self._expected.known and not self._expected.include_usage:
            report.add("B33", "a usage object that the request did not ask for")
        is_over = all(choice.finish is not None for choice in self._choices.values())
        if choices or not is_over:
            # Many servers send usage with the finish_reason, in what is their last chunk.
            is_common = is_over and not report.own
            report.add("B30", "usage together with choices or before a finish_reason", note=is_common)
        check_usage(usage, report)

    def _on_entry(self, entry: dict[str, Json], *, is_first: bool, among: list[dict[str, Json]]) -> None:
        report, index = self._report, entry.get("index")
        if not is_int(index):
            report.add("B07", "a choice without an integer index")
            return
        if is_first:
            report.check(any(other.get("index") == 0 for other in among), "B07", "the first choices lack index 0")
        if self._expected.known and self._expected.choices == 1:
            report.check(index == 0, "B42", f"choice {index} though n is 1")
        choice = self._choices.setdefault(index, _OpenChoice(f"choices[{index}]"))
        finish, path = entry.get("finish_reason"), choice.path
        report.check("finish_reason" in entry, "B16", f"{path}.finish_reason is missing instead of null")
        if choice.finish is not None:
            rule, what = ("B12", "delta") if finish is None else ("B13", "second finish_reason")
            report.add(rule, f"{path}: a {what} after its finish_reason")
            return
        self._on_delta(choice, obj(entry.get("delta")), finish)
        self._on_logprobs(choice, entry)
        choice.finish = finish

    def _on_delta(self, choice: _OpenChoice, delta: dict[str, Json], finish: Json) -> None:
        report, path = self._report, f"{choice.path}.delta"
        role, content = delta.get("role"), delta.get("content")
        if not choice.has_delta:
            report.check(role == "assistant", "B08", f"the first {path} has no role assistant")
        else:
            report.check(role is None or not choice.has_role, "B09", f"{path}.role occurs again")
        choice.has_delta = True
        choice.has_role = choice.has_role or role is not None
        report.check(content is None or isinstance(content, str), "B10", f"{path}.content is not a string")
        report.check(not (content and delta.get("refusal")), "B11", f"{path} has content and refusal")
        if finish is not None:
            report.check(not delta, "B15", f"{path} is not empty although it has finish_reason")
        self._on_reasoning(choice, delta)
        choice.content.append(text(content))
        choice.has_content = choice.has_content or bool(content)
        choice.is_refused = choice.is_refused or bool(delta.get("refusal"))
        choice.is_legacy = choice.is_legacy or bool(delta.get("function_call"))
        for entry in arr(delta.get("tool_calls")):
            self._on_call(choice, obj(entry))

    def _on_reasoning(self, choice: _OpenChoice, delta: dict[str, Json]) -> None:
        for name in _REASONING_FIELDS:
            if delta.get(name):
                self._reasoning_field = self._reasoning_field or name
                self._report.check(name == self._reasoning_field, "B45", f"reasoning in {name} and another field")
                self._report.check(not choice.has_content, "B46", f"{choice.path}: reasoning after content")

    def _on_logprobs(self, choice: _OpenChoice, entry: dict[str, Json]) -> None:
        tokens = obj(entry.get("logprobs")).get("content")
        if isinstance(tokens, list):
            pieces = [_token(obj(token)) for token in tokens]
            choice.tokens = (choice.tokens or []) + pieces

    def _on_call(self, choice: _OpenChoice, entry: dict[str, Json]) -> None:
        report, path = self._report, f"{choice.path}.delta.tool_calls"
        index = entry.get("index")
        if not is_int(index):
            report.add("B17", f"{path}: an entry without an integer index")
            index = _assumed_index(choice, entry)
        report.check(index >= choice.last_call, "B28", f"{path}: the index goes back")
        choice.last_call = index
        kind = entry.get("type")
        key = "custom" if kind == "custom" or "custom" in entry else "function"
        inner = obj(entry.get(key))
        known = choice.calls.get(index)
        if known is None:
            report.check(index == len(choice.calls), "B18", f"{path}: the indices are not 0, 1, 2")
            is_whole = bool(text(entry.get("id"))) and one_of(kind, CLIENT_TOOLS) and bool(text(inner.get("name")))
            report.check(is_whole, "B19", f"{path}: the first entry of an index lacks id, type or name")
            known = ChatToolCall(f"{path}[{index}]", text(entry.get("id")), text(inner.get("name")), key == "custom")
            choice.calls[index] = known
            choice.pieces[index] = []
        else:
            repeats = bool(entry.get("id")) or bool(inner.get("name"))
            report.check(not repeats, "B20", f"{path}: a later entry repeats id or name")
        piece = inner.get("input" if known.is_custom else "arguments")
        is_text = report.check(piece is None or isinstance(piece, str), "B21", f"{path}: arguments are not a string")
        choice.pieces[index].append(text(piece) if is_text else "{}")


def _assumed_index(choice: _OpenChoice, entry: dict[str, Json]) -> int:
    """Return where clients put an entry without an index: into the last call, or a new one if it has another id."""
    last = max(choice.calls, default=-1)
    call_id = text(entry.get("id"))
    is_new = last < 0 or (bool(call_id) and call_id != choice.calls[last].id)
    return last + 1 if is_new else last


def _token(token: dict[str, Json]) -> bytes:
    """Return a token's bytes. Its text would show parts of characters as escapes."""
    raw = token.get("bytes")
    if isinstance(raw, list) and all(is_int(value) and 0 <= value < 256 for value in raw):
        return bytes(raw)
    return text(token.get("token")).encode("utf-8", "replace")

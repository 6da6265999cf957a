"""The encoder for streamed Responses responses, for whole ones, and for the response object around their output.

In: the model events of one response, one block at a time. Out: the events that the official API would send: two
lifecycle events, items one after the other with their parts, and one terminal event with everything. A whole response
is the content of that terminal event, made of the same items without their events. How items are written is in
`output_items.py`.

The response object has echoes of the client's request, or the fields that an upstream of this protocol sent, the
service tier and the usage of hosted tools.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from msgspec import Raw

from trilogue.base.json_text import dump, dumps
from trilogue.errors import InternalError, UpstreamProtocolError
from trilogue.model import (
    Audio,
    Block,
    BlockStart,
    BlockStop,
    CitationDelta,
    Delta,
    Extras,
    Failed,
    Finish,
    HostedCall,
    Json,
    LogprobsDelta,
    Native,
    Reasoning,
    ReasoningDelta,
    Refusal,
    Response,
    ResponseStart,
    Stop,
    StopReason,
    Text,
    Tier,
    ToolCall,
)
from trilogue.protocols.failure import in_stream
from trilogue.protocols.openai import moderation as openai_moderation
from trilogue.protocols.parts import derive_id, safe_call_id
from trilogue.protocols.responses.codex import encrypted_tools
from trilogue.protocols.responses.errors import encode_failure, streamed_code
from trilogue.protocols.responses.hosted import ITEM_TYPES
from trilogue.protocols.responses.output_items import (
    NO_LOGPROBS,
    CallItem,
    DroppedItem,
    HostedItem,
    MessageItem,
    NativeItem,
    OutputItem,
    ReasoningItem,
    done_item,
)
from trilogue.protocols.responses.usage import encode_stop, encode_usage
from trilogue.protocols.responses.wire import ID_PREFIXES, PROTOCOL, SEARCH_ITEMS, TERMINAL
from trilogue.protocols.stream.encoder import ResponsePhase, StreamEncoder, written_events
from trilogue.protocols.stream.response_context import ResponseContext

MOST_OUTPUT = 32 * 1024 * 1024
"""the maximum size of all items in bytes: they are kept, and repeated at the end"""
_REQUIRED: dict[str, Json] = {
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "temperature": 1.0,
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
}
"""the fields that the official types require of every response, with the value if there is nothing to say"""
_ECHOED: dict[str, Json] = {
    **_REQUIRED,
    "background": False,
    "frequency_penalty": 0.0,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "prompt_cache_retention": None,
    "safety_identifier": None,
    "service_tier": "auto",
    "top_logprobs": 0,
    "truncation": "disabled",
    "user": None,
}
"""echoes of the request, with the protocol's default for what the client left out"""
_OBJECTS: tuple[tuple[str, dict[str, Json]], ...] = (
    ("reasoning", {"effort": None, "summary": None}),
    ("text", {"format": {"type": "text"}}),
)
"""echoes that are objects, of which the client may have set some fields"""
_EXPECTED: dict[str, Json] = {
    **_REQUIRED,
    "max_output_tokens": None,
    "previous_response_id": None,
    **dict(_OBJECTS),
    "truncation": "disabled",
}
"""what clients read from every snapshot, for upstreams of this protocol that leave some of it out"""
_ONLY_IF_SENT = ("prompt", "conversation", "prompt_cache_options")
_FUNCTION: dict[str, Json] = {"description": None, "parameters": None, "strict": False}
"""what the echo of a function always has; tools without `strict` are offered as not strict"""


class ResponsesStreamEncoder(StreamEncoder):
    """An encoder of one response. `snapshot` is the final response object once the response is complete."""

    protocol = PROTOCOL

    def __init__(self, context: ResponseContext) -> None:
        super().__init__(context)
        self.native = context.source is PROTOCOL
        self._sequence = 0
        self._id = ""
        self._created = 0
        self._base: dict[str, Json] = {}
        self._item: OutputItem | None = None
        self._indices = 0
        self._ids: set[str] = set()
        self._output: dict[int, Json] = {}
        """the items that are done, by their output index"""
        self._room = MOST_OUTPUT
        self._call_ids: set[str] = set()
        self._in_block = False

    def resume(self, number: int) -> None:
        self._sequence = number

    def follow(self, written: bytes) -> None:
        events = [event for event in written_events(written) if _is_about_item(event)]
        item = self._item
        if item is not None and not self._in_block:
            # The upstream has ended the item: nothing else ends the block of a message.
            self._complete_item(False)
        elif item is not None:
            item.follow(events)
        # Clients count the items that they have got: a message whose parts others interrupted is one of them.
        self._indices = max([event["output_index"] + 1 for event in events], default=self._indices)
        self._output = _as_written(self._output, events)

    def whole(self, response: Response) -> dict[str, Json]:
        """Return a whole response: what the terminal event of its stream would contain."""
        self._begin(response)
        for block in response.blocks:
            shown = self._transcript(block) if type(block) is Audio else block
            item = self._item
            if item is None or not item.accepts(shown):
                if item is not None:
                    self._complete_item(False)
                self._item = item = _OPENERS.get(type(shown), DroppedItem)(self, shown)
            item.take(shown)
            if not item.goes_on:
                self._complete_item(False)
        status, incomplete = encode_stop(response.stop, self.context)
        refusal = self._explanation(response.stop) if response.stop.reason is StopReason.REFUSAL else None
        if refusal is not None:
            self._complete_item(False)
            self._item = MessageItem(self, refusal)
            self._item.take(refusal)
        self._complete_item(status == "incomplete")
        return self._end(status, incomplete, response, None)

    def _begin(self, start: ResponseStart | Response) -> None:
        """Set what is known about a response before its first block."""
        context = self.context
        self._id = context.response_id or _response_id(start, context, native=self.native)
        self._created = start.created if start.created is not None else context.created
        self._base = {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": "in_progress",
            **echo(context, start.extras),
            "model": context.model or start.model,
            "output": [],
            "usage": None,
        }
        if start.extras and not self.native:
            self._base |= self._moderation(start.extras)

    def _moderation(self, extras: dict[str, Json]) -> dict[str, Json]:
        """Return the results of moderation, which Chat has at the end of a stream."""
        found = openai_moderation.for_responses(extras.get("moderation"), self.context)
        return {"moderation": found} if found else {}

    def _complete_item(self, incomplete: bool) -> dict[str, Json] | None:
        """Complete the open item, and return its final form, if it has one."""
        item, self._item = self._item, None
        if item is None or type(item) is DroppedItem:
            return None
        final = item.close(incomplete)
        self._output[item.index] = final
        return final

    def _end(
        self, status: str, incomplete: dict[str, Json] | None, end: Finish | Response, later: Extras
    ) -> dict[str, Json]:
        """Return the response with every item. `later`: fields that were only known at its end."""
        final = self._base
        if later:
            final |= later
        final |= {
            "status": status,
            "output": self._items(),
            "usage": encode_usage(end.usage, self.native, self.context.ledger),
            "incomplete_details": incomplete,
            **service_tier(end.tier, self.context),
        }
        if status == "completed" and not is_upstreams_own(self.context):
            final["completed_at"] = max(self.context.now(), self._created)
        if not self.native and end.usage is not None and end.usage.searches:
            final["tool_usage"] = tool_usage(end.usage.searches)
        return final

    def _items(self) -> list[Json]:
        """Return the items that are done, in the order of their indices: those of an upstream may overlap."""
        return [self._output[index] for index in sorted(self._output)]

    def on_start(self, event: ResponseStart) -> None:
        self._begin(event)
        begun = self._base if "completed_at" not in self._base else {**self._base, "completed_at": None}
        fields = {"response": Raw(dump(begun))}
        self.event("response.created", fields)
        self.event("response.in_progress", fields)

    def on_block_start(self, event: BlockStart) -> None:
        if self._room < 0 and self.state is not ResponsePhase.DONE:
            raise UpstreamProtocolError(f"the items of the response have more than {MOST_OUTPUT} bytes")
        self._in_block = True
        block = self._transcript(event.block) if type(event.block) is Audio else event.block
        if self._item is not None:
            if self._item.accepts(block):
                self._item.start(block)
                return
            self._close(self._item, False)
        self._item = item = _OPENERS.get(type(block), DroppedItem)(self, block)
        item.announce(block)

    def _transcript(self, block: Audio) -> Block:
        """Return the transcript of audio as text, and declare the loss; the audio if there is nothing to write."""
        if not block.only_words:
            return block
        self.context.ledger.add("audio.dropped", block.path)
        return Text(text=block.only_words, path=block.path)

    def on_delta(self, event: Delta) -> None:
        item = self._item
        if item is None or not event.text:
            return
        if item.prefix is not None:
            self.out.append(self.encode_text(event.text))
        else:
            item.open.texts.append(event.text)

    def encode_text(self, text: str) -> bytes:
        item = self._item
        if item is None or item.prefix is None:
            raise InternalError("there is no block that could have more text")
        item.open.texts.append(text)
        number = self._sequence
        self._sequence = number + 1
        return b"%b%b%b%d}\n\n" % (item.prefix, dumps(text), item.suffix, number)

    def on_reasoning(self, event: ReasoningDelta) -> None:
        if self._item is not None and event.text:
            self._item.think(event)

    def on_citation(self, event: CitationDelta) -> None:
        # Citations wait until the part is complete, because their positions depend on its text.
        if self._item is not None:
            self._item.open.citations.append(event.citation)

    def on_logprobs(self, event: LogprobsDelta) -> None:
        # They go into the delta that they belong to if that has not been sent yet, else into an empty one.
        item = self._item
        if item is None or item.prefix is None or item.suffix is not NO_LOGPROBS or not event.logprobs:
            return
        item.open.logprobs.extend(event.logprobs)
        last = self.out[-1] if self.out and self.out[-1].startswith(item.prefix) else b""
        text, found, _ = last[len(item.prefix) :].rpartition(NO_LOGPROBS)
        if found:
            self.out.pop()
            self._sequence -= 1
        else:
            text = b'""'
        tail = b',"logprobs":%b,"sequence_number":%d}\n\n' % (dump(event.logprobs), self._sequence)
        self.out.append(item.prefix + text + tail)
        self._sequence += 1

    def on_block_stop(self, event: BlockStop) -> None:
        # Clients act on items that are done, so an item ends with its block unless more can belong to it.
        self._in_block = False
        item = self._item
        if item is not None:
            item.stop(event)
            if not item.goes_on:
                self._close(item, False)

    def on_finish(self, event: Finish) -> None:
        status, incomplete = encode_stop(event.stop, self.context)
        refusal = self._explanation(event.stop) if event.stop.reason is StopReason.REFUSAL else None
        if refusal is not None:
            self.on_block_start(BlockStart(0, refusal))
            self.on_block_stop(BlockStop(0))
        if self._item is not None:
            self._close(self._item, status == "incomplete")
        later = event.extras if self.native or not event.extras else self._moderation(event.extras)
        self.snapshot = final = self._end(status, incomplete, event, later)
        self.event(TERMINAL.get(status, TERMINAL["completed"]), {"response": final})

    def on_failed(self, event: Failed) -> None:
        # The error is for clients that raise on it, the failed response for those that wait for the end.
        if self._item is not None and not self._in_block:
            self._close(self._item, False)
        self._announce()
        error = encode_failure(in_stream(event.failure))
        error["code"] = code = streamed_code(event.failure, str(error["code"] or error["type"]))
        # Flat as OpenAI documents the event, and nested as its SDKs need it to raise.
        self.event("error", {"code": code, "message": error["message"], "param": error["param"], "error": error})
        failed = {**self._base, "status": "failed", "output": self._items()}
        failed["error"] = {"code": code, "message": error["message"]}
        self.snapshot = failed
        self.event("response.failed", {"response": failed})

    def _announce(self) -> None:
        """Start a response that has failed before its first event."""
        # Codex only looks at the failed response, so it needs one.
        if self._base:
            return
        start = ResponseStart(protocol=PROTOCOL, id="", model="")
        if self._sequence:
            # The upstream has sent the lifecycle events itself.
            self._begin(start)
        else:
            self.on_start(start)

    def place(self, kind: str, given: str | None) -> tuple[int, str]:
        """Return the output index and the id of a new item.

        The id is the upstream's own if that has this protocol, else a derived one. Searches that the gateway has run
        have ids already, by which the next request knows them.
        """
        index = self._indices
        self._indices = index + 1
        # A message is two items if another one came between its parts.
        if given and (self.native or kind in SEARCH_ITEMS) and given not in self._ids:
            self._ids.add(given)
            return index, given
        return index, derive_id(ID_PREFIXES.get(kind, "item_"), self._id, index)

    def call_id(self, given: str) -> str:
        """Return a call id that no other call of this response has."""
        call_id = given if self.native else safe_call_id(given)
        if call_id in self._call_ids:
            call_id = derive_id("call_", self._id, self._indices)
        self._call_ids.add(call_id)
        return call_id

    def is_plain(self, call: ToolCall) -> bool:
        """Return whether the client expects encrypted arguments, and must be told that they are not."""
        return not self.native and bool(self._encrypted) and (call.namespace, call.name) in self._encrypted

    @cached_property
    def _encrypted(self) -> frozenset[tuple[str | None, str]]:
        return encrypted_tools(self.context.body)

    def event(self, kind: str, fields: dict[str, Json]) -> int:
        """Send an event, and return the length of its data."""
        data = dump({"type": kind, **fields, "sequence_number": self._sequence})
        self.out.append(b"event: %b\ndata: %b\n\n" % (kind.encode(), data))
        self._sequence += 1
        return len(data)

    def send(self, item: OutputItem, text: str) -> None:
        """Send a delta of an item."""
        if item.prefix is not None:
            self.out.append(b"%b%b%b%d}\n\n" % (item.prefix, dump(text), item.suffix, self._sequence))
            self._sequence += 1

    def _close(self, item: OutputItem, incomplete: bool) -> None:
        final = self._complete_item(incomplete)
        if final is not None:
            item.conclude(final)
            self._room -= self.event("response.output_item.done", {"output_index": item.index, "item": final})

    def _explanation(self, stop: Stop) -> Refusal | None:
        """Return a classifier's explanation as a refusal, if the model itself wrote nothing."""
        if not stop.explanation:
            return None
        if isinstance(self._item, MessageItem) or any(item.get("type") == "message" for item in self._items()):
            self.context.ledger.add("refusal.category", "stop_details.explanation")
            return None
        return Refusal(text=stop.explanation)


def _is_about_item(event: dict[str, Json]) -> bool:
    """Return whether an event of an upstream is about an item that clients know by its index."""
    return type(event.get("output_index")) is int and ("item" in event or "item_id" in event)


def _as_written(output: dict[int, Json], events: list[dict[str, Json]]) -> dict[int, Json]:
    """Return items as an upstream has written them, by its own indices: clients compare them with those at the end."""
    done = {event["output_index"]: item for event in events if (item := done_item(event)) is not None}
    if len(done) == len(output):
        return done
    by_id = {item.get("id"): item for item in done.values()}
    return {index: by_id.get(item.get("id"), item) for index, item in output.items()}


def _open_hosted(encoder: ResponsesStreamEncoder, block: HostedCall) -> OutputItem:
    if encoder.native and block.native is not None:
        return NativeItem(encoder, block, block.native)
    return HostedItem(encoder, block) if block.tool in ITEM_TYPES else DroppedItem(encoder, block)


def _open_native(encoder: ResponsesStreamEncoder, block: Native) -> OutputItem:
    writes = encoder.native or block.for_client
    return NativeItem(encoder, block, block.data) if writes else DroppedItem(encoder, block)


_OPENERS: dict[type[Block], Callable[[ResponsesStreamEncoder, Any], OutputItem]] = {
    Text: MessageItem,
    Refusal: MessageItem,
    Reasoning: ReasoningItem,
    ToolCall: CallItem,
    HostedCall: _open_hosted,
    Native: _open_native,
}


def _response_id(start: ResponseStart | Response, context: ResponseContext, *, native: bool) -> str:
    """Return the upstream's id in this protocol, else one that is derived from what there is."""
    return start.id if native and start.id else derive_id("resp_", start.id or context.seed)


def echo(context: ResponseContext, extras: Extras) -> dict[str, Json]:
    """Return all fields of a snapshot that do not change during a response.

    The values of an upstream of this protocol override those of the request.
    """
    if is_upstreams_own(context):
        return {**_EXPECTED, **(extras or {})}
    body = context.body
    echoed = {**_ECHOED}
    for name, value in body.items():
        if name in _ECHOED and value is not None:
            echoed[name] = value
    for name in _ONLY_IF_SENT:
        if name in body and body[name] is not None:
            echoed[name] = body[name]
    for name, default in _OBJECTS:
        given = body.get(name)
        echoed[name] = {**default, **given} if type(given) is dict else {**default}
    # Responses are not stored here, so they cannot be fetched later, whatever the client asked for.
    echoed["store"] = context.stored
    echoed["completed_at"] = None
    echoed["tools"] = _tools(echoed["tools"])
    return {**echoed, **(extras or {})} if context.source is PROTOCOL else echoed


def is_upstreams_own(context: ResponseContext) -> bool:
    """Return whether the snapshot is an upstream's own, to be completed only where clients would fail."""
    return context.source is PROTOCOL and not context.body


def _tools(given: Json) -> Json:
    """Return the tools with every field that the echo of a function must have, also inside namespaces."""
    return [_tool(tool) for tool in given] if isinstance(given, list) else given


def _tool(tool: Json) -> Json:
    if not isinstance(tool, dict):
        return tool
    if tool.get("type") == "namespace":
        return {**tool, "tools": _tools(tool.get("tools"))}
    if tool.get("type", "function") != "function":
        return tool
    given = {name: value for name, value in tool.items() if value is not None}
    return {"type": "function", **_FUNCTION, **given}


def service_tier(tier: Tier | None, context: ResponseContext) -> dict[str, Json]:
    """Return the tier that was used: the default one if an upstream of another protocol did not say.

    The upstream's own name for it is in the extras.
    """
    if tier is None:
        return {} if context.source is PROTOCOL else {"service_tier": "default"}
    if tier is Tier.BATCH:
        context.ledger.add("tier", context.tier_path, tier.value)
        tier = Tier.DEFAULT
    return {"service_tier": tier.value}


def tool_usage(searches: int) -> dict[str, Json]:
    """Return how often hosted tools ran; kinds of tool that did not run have zero counts."""
    no_images = {
        "input_tokens": 0,
        "input_tokens_details": {"image_tokens": 0, "text_tokens": 0},
        "output_tokens": 0,
        "total_tokens": 0,
    }
    return {"image_gen": no_images, "web_search": {"num_requests": searches}}

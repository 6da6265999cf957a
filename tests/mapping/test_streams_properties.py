"""Random but legal streams of each protocol, through all nine pairs: what must hold whatever the upstream does."""

import json
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

import trilogue
from tests.each import in_parts
from tests.judges import sdk
from tests.mapping.cases import Body, C, M, R, request
from tests.mapping.streams import Block, Habits, draw, draw_habits, split, write
from trilogue import Protocol, StreamTranslator
from trilogue.lint import lint_stream

SEEDS = 120
PAIRS = [
    pytest.param(source, target, id=f"{source.short}-{target.short}") for source in (C, M, R) for target in (C, M, R)
]
every_pair = pytest.mark.parametrize(("source", "target"), PAIRS)
cross_pairs = pytest.mark.parametrize(
    ("source", "target"), [pair for pair in PAIRS if pair.values[0] != pair.values[1]]
)


class Sample:
    """One random stream."""

    def __init__(self, protocol: Protocol, seed: int) -> None:
        self.rng = Random(f"{protocol.short}-{seed}")
        self.blocks, self.stop = draw(protocol, self.rng)
        self.habits = draw_habits(self.rng)
        self.data = write(protocol, self.blocks, self.stop, self.rng, self.habits)
        self.says = f"seed {seed}: {self.blocks} {self.stop} {self.habits}"


def samples(protocol: Protocol, seeds: Iterable[int]) -> list[Sample]:
    """The same random streams every time."""
    return [Sample(protocol, seed) for seed in seeds]


def translate(data: bytes, source: Protocol, target: Protocol) -> tuple[bytes, StreamTranslator]:
    """A whole stream at once."""
    translator = StreamTranslator(source=source, target=target)
    out = translator.feed(data)
    return out + translator.close(), translator


def broken(target: Protocol, out: bytes, *, own: bool, usage: bool = True) -> list[str]:
    """What the linter calls an error. Without usage from upstream a completed answer has none."""
    found = [finding for finding in lint_stream(target, out, own=own) if finding.severity == "error"]
    return [str(finding) for finding in found if usage or finding.rule != "D41"]


@every_pair
@in_parts("seeds", range(SEEDS), 3)
def test_output_is_clean(source: Protocol, target: Protocol, seeds: list[int]) -> None:
    """Encoders emit only what the rules of the protocol allow, whatever came in, and never fail on what is legal."""
    for sample in samples(source, seeds):
        out, translator = translate(sample.data, source, target)
        assert translator.failed is None, sample.says
        assert not broken(target, out, own=source is not target, usage=sample.habits.usage != "none"), sample.says


@every_pair
def test_official_clients_accept_it(source: Protocol, target: Protocol) -> None:
    """The accumulators of the official SDKs take it and see what the model said."""
    for sample in samples(source, range(12)):
        out, _ = translate(sample.data, source, target)
        verdict = sdk.accumulate(target, out)
        assert verdict.error is None, f"{verdict.error!r} {sample.says}"
        assert verdict.final is not None
        assert sorted(map(repr, said(target, verdict.final)[1])) == sorted(map(repr, meant(sample)[1])), sample.says


def said(protocol: Protocol, final: Body) -> tuple[str, list[tuple[str, Any]]]:
    """The text and the calls of an answer: what every protocol can carry."""
    if protocol is C:
        message = final["choices"][0]["message"]
        calls = [call["function"] for call in message.get("tool_calls") or []]
        found = [(call["name"], call["arguments"]) for call in calls]
        return message.get("content") or "", [(name, parsed(text)) for name, text in found]
    if protocol is M:
        texts = [block["text"] for block in final["content"] if block["type"] == "text"]
        return "".join(texts), [
            (block["name"], block["input"]) for block in final["content"] if block["type"] == "tool_use"
        ]
    parts = [part for item in final["output"] if item["type"] == "message" for part in item["content"]]
    calls = [item for item in final["output"] if item["type"] == "function_call"]
    return "".join(part["text"] for part in parts), [(item["name"], parsed(item["arguments"])) for item in calls]


def parsed(arguments: str) -> Any:
    """Arguments as a value; none at all means an empty object."""
    return json.loads(arguments or "{}")


def meant(sample: Sample) -> tuple[str, list[tuple[str, Any]]]:
    """What the model said."""
    texts = [block.whole for block in sample.blocks if block.kind == "text"]
    return "".join(texts), [(block.name, parsed(block.whole)) for block in sample.blocks if block.kind == "call"]


@every_pair
@in_parts("seeds", range(SEEDS), 3)
def test_what_the_model_said_arrives(source: Protocol, target: Protocol, seeds: list[int]) -> None:
    """Text in order and calls with their arguments, however they were cut and mixed."""
    for sample in samples(source, seeds):
        out, _ = translate(sample.data, source, target)
        whole = trilogue.collect_stream(out, protocol=target)
        text, calls = said(target, whole)
        assert sorted(map(repr, calls)) == sorted(map(repr, meant(sample)[1])), sample.says
        if not sample.habits.interleave:
            assert text == meant(sample)[0], sample.says
        assert sorted(text) == sorted("".join(b.whole for b in sample.blocks if b.kind == "text")), sample.says


@every_pair
@in_parts("seeds", range(40), 3)
def test_chunk_boundaries_do_not_matter(source: Protocol, target: Protocol, seeds: list[int]) -> None:
    """A23: the same bytes in any split give the same bytes."""
    for sample in samples(source, seeds):
        whole, _ = translate(sample.data, source, target)
        if "trl2." in whole.decode():
            continue  # a sealed value is different every time
        for size in (1, sample.rng.randint(2, 40), 1000):
            translator = StreamTranslator(source=source, target=target)
            pieces = [sample.data[start : start + size] for start in range(0, len(sample.data), size)]
            out = b"".join(translator.feed(piece) for piece in pieces) + translator.close()
            assert out == whole, f"size {size} {sample.says}"


_OWN = ("id", "created", "created_at", "completed_at", "item_id")
_SEALED = ("signature", "encrypted_content", "data", "reasoning_details")


def plain(value: Any) -> Any:
    """Without ids and times, and with sealed values only as such: they are different every time."""
    if isinstance(value, list):
        return [plain(element) for element in value]
    if not isinstance(value, dict):
        return value
    kept = {key: plain(inner) for key, inner in value.items() if key not in _OWN and inner is not None}
    if isinstance(kept.get("arguments"), str):
        # A stream has them as the model wrote them; a whole Messages answer has only their value.
        kept["arguments"] = parsed(kept["arguments"])
    return {key: "sealed" if key in _SEALED else inner for key, inner in kept.items()}


_ORDER = {"thought": 0, "text": 1, "call": 2}


def ordered(source: Protocol, sample: Sample) -> bool:
    """Whether a whole answer can say the order too: a whole Chat answer is thoughts, text and calls."""
    kinds = [_ORDER.get(block.kind, 0) for block in sample.blocks if block.pieces or block.kind == "call"]
    return source is not C or (kinds == sorted(kinds) and not sample.habits.interleave)


@cross_pairs
@in_parts("seeds", range(SEEDS), 3)
def test_streamed_equals_collected(source: Protocol, target: Protocol, seeds: list[int]) -> None:
    """A10: the stream, put together, is the translation of the whole answer."""
    for sample in samples(source, seeds):
        out, _ = translate(sample.data, source, target)
        streamed = trilogue.collect_stream(out, protocol=target)
        whole = trilogue.collect_stream(sample.data, protocol=source)
        expected = trilogue.translate_response(whole, source=source, target=target).body
        if ordered(source, sample):
            assert plain(streamed) == plain(expected), sample.says


@cross_pairs
@in_parts("seeds", range(SEEDS), 3)
def test_losses_of_a_stream_are_those_of_the_response(source: Protocol, target: Protocol, seeds: list[int]) -> None:
    """What cannot be carried is declared either way; what nobody knows of an event is no part of a whole answer."""
    for sample in samples(source, seeds):
        _, translator = translate(sample.data, source, target)
        beside = source is M and any(mark in sample.data for mark in (b"content_block_fancy", b'"strange"'))
        whole = trilogue.collect_stream(sample.data, protocol=source)
        expected = trilogue.translate_response(whole, source=source, target=target).losses
        if ordered(source, sample):
            codes = {loss.code for loss in expected} | ({"resp.meta"} if beside else set())
            assert {loss.code for loss in translator.losses} == codes, sample.says


@every_pair
@in_parts("seeds", range(30), 3)
def test_a_cut_is_a_whole_response_or_an_error(source: Protocol, target: Protocol, seeds: list[int]) -> None:
    """A15: an upstream that ends early gives the client's own form of an error, never a made-up end."""
    for sample in samples(source, seeds):
        cuts = {sample.rng.randrange(len(sample.data)) for _ in range(6)}
        cuts |= {sample.data.rfind(b"data:", 0, cut) for cut in cuts} - {-1}
        for cut in cuts:
            out, translator = translate(sample.data[:cut], source, target)
            ended = translator.failed is None
            assert not broken(target, out, own=source is not target, usage=False), f"cut {cut} {sample.says}"
            if ended:
                assert finished(source, sample.data[:cut]), f"cut {cut} {sample.says}"


def finished(protocol: Protocol, data: bytes) -> bool:
    """Whether an upstream's stream holds its terminal event."""
    if protocol is C:
        return any(
            f'"finish_reason": "{reason}"'.encode() in data
            for reason in ("stop", "length", "tool_calls", "content_filter")
        )
    if protocol is M:
        return b'"message_stop"' in data or b'"type": "message_delta"' in data
    return b'"response.completed"' in data or b'"response.incomplete"' in data


@every_pair
def test_unknown_events_change_nothing(source: Protocol, target: Protocol) -> None:
    """A24: what a newer server adds leaves the known events as they were."""
    for seed in range(30):
        blocks, stop = draw(source, Random(seed))
        quiet = write(source, blocks, stop, Random(1), Habits())
        noisy = write(source, blocks, stop, Random(1), Habits(unknown=True, pings=True, extra={"novel": {"a": 1}}))
        streams = [
            plain(trilogue.collect_stream(translate(data, source, target)[0], protocol=target))
            for data in (quiet, noisy)
        ]
        if source is not target:
            assert streams[0] == streams[1], f"seed {seed}"


@pytest.mark.parametrize("target", [C, M, R], ids=["chat", "messages", "responses"])
def test_interleaved_calls_equal_sequential_ones(target: Protocol) -> None:
    """Fragments of two calls in turn are the same two calls."""
    for seed in range(40):
        rng = Random(seed)
        blocks = [Block("call", split('{"city": "Rome", "n": 12}', rng), f"call_{n}", "look") for n in range(3)]
        for source in (C, R):
            ways = [write(source, blocks, "calls", Random(seed), Habits(interleave=mixed)) for mixed in (False, True)]
            whole = [trilogue.collect_stream(translate(data, source, target)[0], protocol=target) for data in ways]
            assert plain(whole[0]) == plain(whole[1])


MUTATIONS = 3000
_VERBATIM = ("B22", "B23", "C20", "D31")
"""Rules about arguments, which are the model's own words even where they are wrong."""


def small(protocol: Protocol) -> list[bytes]:
    """Short streams of every kind of block, so that many mutations are cheap."""
    kinds = (
        [Block("text", ("Hi", "!"))],
        [Block("call", ("{}",), "call_1", "look")],
        [Block("thought", ("t",), opaque="S=="), Block("text", ("a",))],
    )
    stops = ("end", "calls", "end")
    return [write(protocol, blocks, stop, Random(1), Habits()) for blocks, stop in zip(kinds, stops, strict=True)]


@every_pair
@in_parts("numbers", range(MUTATIONS), 3)
def test_mutated_bytes_never_let_a_foreign_exception_escape(
    source: Protocol, target: Protocol, numbers: list[int]
) -> None:
    """Whatever the bytes, the client gets a stream of its own protocol with exactly one end."""
    rng = Random(f"{source.short}{target.short}{numbers[0]}")
    seeds = small(source)
    exchange = trilogue.translate_request(request(target), source=target, target=source).exchange
    for number in range(len(numbers)):
        data = mutate(seeds[number % len(seeds)], rng)
        translator = StreamTranslator(source=source, target=target, exchange=exchange)
        try:
            out = translator.feed(data) + translator.close()
        except Exception as error:
            raise AssertionError(f"{error!r} for {data!r}") from error
        if number % 20 == 0 and source is not target:
            found = broken(target, out, own=False, usage=False)
            assert [text for text in found if not any(rule in text for rule in _VERBATIM)] == [], data


_SCRAPS = (
    b"null",
    b"[]",
    b"{}",
    b'"',
    b"-1",
    b"1e999",
    b"\\ud800",
    b"\xff",
    b"\n",
    b"\n\n",
    b"true",
    b"9" * 30,
    b"",
    b"[" * 50,
)


def mutate(data: bytes, rng: Random) -> bytes:
    """A few bytes changed, a value replaced, a piece doubled or left out."""
    start = rng.randrange(len(data))
    end = min(len(data), start + rng.choice((1, 1, 3, 20, 200)))
    way = rng.randrange(5)
    if way == 0:
        return data[:start] + bytes([rng.randrange(256)]) + data[start + 1 :]
    if way == 1:
        return data[:start] + data[end:]
    if way == 2:
        return data[:end] + data[start:]
    if way == 3:
        colon = data.find(b": ", start) + 2
        stop = min(
            position for position in (data.find(b",", colon), data.find(b"}", colon), len(data)) if position >= 0
        )
        return data[:colon] + rng.choice(_SCRAPS) + data[max(stop, colon) :]
    return data[:start] + rng.choice(_SCRAPS) + data[end:]

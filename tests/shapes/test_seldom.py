"""What recordings hold that neither a shape nor a field shows: values that decide, written by hand."""

from typing import Any

import pytest

import trilogue
from tests.corpus.cases import judge_body, judge_stream
from tests.judges import meaning
from tests.judges.answers import LENGTH
from tests.shapes import made
from tests.shapes.items import done_item
from tests.shapes.write_bodies import write
from tests.shapes.write_responses import response
from trilogue import Protocol

Body = dict[str, Any]
TARGETS = [pytest.param(protocol, id=protocol.short) for protocol in Protocol]
CHAT, RESPONSES = Protocol.CHAT, Protocol.RESPONSES
FLAGGED: Body = {
    "type": "moderation_result",
    "model": "omni",
    "flagged": False,
    "categories": {"violence": False},
    "category_scores": {"violence": 0.1},
    "category_applied_input_types": {"violence": ["text"]},
}


@pytest.mark.parametrize("target", TARGETS)
def test_the_reason_in_another_field(target: Protocol) -> None:
    """OpenAI's vision preview gave the reason in `finish_details`."""
    body = write(CHAT, "content finish:- usage")
    body["choices"][0]["finish_details"] = {"type": "max_tokens"}
    translated = trilogue.translate_response(body, source=CHAT, target=target).body
    assert meaning.of_body(target, translated).stop == LENGTH


@pytest.mark.parametrize("target", TARGETS)
def test_moderation_with_one_result_for_each_side(target: Protocol) -> None:
    """Chat has a list of results there."""
    body = {
        **write(RESPONSES, "message(output_text) status:completed"),
        "moderation": {"input": FLAGGED, "output": FLAGGED},
    }
    assert judge_body(made.as_recorded(RESPONSES, response=body), target).problems == []


@pytest.mark.parametrize("target", TARGETS)
def test_a_search_that_says_what_it_looked_for_in_its_arguments(target: Protocol) -> None:
    """xAI's searches have the fields of a function call and no action."""
    search = done_item("web_search_call", 1) | {
        "name": "web_search",
        "call_id": "call_1",
        "arguments": '{"query":"boats"}',
    }
    message = done_item("message", 2) | {"content": [{"type": "output_text", "text": "Boats.", "annotations": []}]}
    recording = made.as_recorded(RESPONSES, response=response("completed", [search, message]))
    assert judge_body(recording, target).problems == []


@pytest.mark.parametrize("target", TARGETS)
def test_probabilities_in_a_stream(target: Protocol) -> None:
    """They come with the pieces of text that they are about."""
    words = ("text2 ", "text3 ")
    stream = made.stream(RESPONSES, made.PLAIN[RESPONSES]).decode()
    for word in words:
        entry = f'{{"token": "{word}", "logprob": -0.5, "bytes": {list(word.encode())}, "top_logprobs": []}}'
        stream = stream.replace(f'"delta": "{word}", "logprobs": []', f'"delta": "{word}", "logprobs": [{entry}]')
    assert stream.count("-0.5") == len(words)
    assert judge_stream(made.streamed(RESPONSES, stream.encode()), target).problems == []

"""What a request asks for: the model, whether to stream, and a body that says each once."""

from __future__ import annotations

import json

import pytest

from trilogue.errors import BadRequest
from trilogue.gateway.request.call import read_asked

UNTOUCHED = [
    b'{"model": "a",  "messages": []}',
    b'{"tools": [{"model": "x", "stream": 1}],  "model": "a", "stream": true}',
    b'{"model" : "a", "tools":[{"properties": {"model": {}, "stream": {}}}], "stream":null}',
    b'{"metadata": {"a": "model", "b": "stream"}, "model": "a"}',
]


@pytest.mark.parametrize("body", UNTOUCHED)
def test_a_body_that_says_it_once_stays(body: bytes) -> None:
    """Byte for byte, whatever its tools are called."""
    assert read_asked(body, None, strict=False).body is body


TWICE = [
    b'{"model": "b", "model": "a"}',
    b'{"model": "a", "model": "a"}',
    b'{"tools": [{"model": "x"}], "model": "b", "model": "a"}',
    b'{"model": "b", "model": "a", "tools": [{"model": "x"}]}',
    rb'{"\u006dodel": "b", "model": "a"}',
    rb'{"model": "b", "mode\u006C": "a"}',
    b'{"model": "b",' + b'"x": [{"model": 1}], ' * 20 + b'"model": "a"}',
]


@pytest.mark.parametrize("body", TWICE)
def test_the_last_model_counts_and_the_others_go(body: bytes) -> None:
    """For us and for every reader of the body behind us."""
    asked = read_asked(body, None, strict=False)
    pairs = json.loads(asked.body, object_pairs_hook=list)
    assert asked.model == "a"
    assert [value for name, value in pairs if name == "model"] == ["a"]


def test_the_last_word_on_streaming_counts() -> None:
    asked = read_asked(b'{"stream": true, "model": "a", "stream": false}', None, strict=False)
    assert asked.stream is False
    assert asked.body.count(b"stream") == 1


@pytest.mark.parametrize("named", [b"", b'"model": null, ', b'"model":"", '])
def test_the_only_model_is_taken_and_declared(named: bytes) -> None:
    asked = read_asked(b'{%b"stream": true}' % named, "local", strict=False)
    assert (asked.model, asked.stream, json.loads(asked.body)) == ("local", True, {"model": "local", "stream": True})
    assert [str(loss) for loss in asked.losses] == ["model.defaulted at model (local)"]


@pytest.mark.parametrize(("only", "strict"), [(None, False), (None, True), ("local", True)])
def test_a_model_is_required(only: str | None, strict: bool) -> None:
    """Where there are several, and in strict mode."""
    with pytest.raises(BadRequest, match="model is required"):
        read_asked(b'{"stream": true}', only, strict=strict)

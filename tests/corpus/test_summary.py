"""A look at recorded answers that are passed on as they came says what decoding all of them would."""

import json

import pytest

from tests.corpus import load
from tests.each import each
from trilogue.model import Usage
from trilogue.protocols.registry import codec


def figures(usage: Usage | None) -> tuple[int, int, int] | None:
    return None if usage is None else (usage.input, usage.cache_read or 0, usage.output)


@each("name", load.bodies())
def test_a_glance_is_enough(name: str) -> None:
    """Its id, its model, why it ended, and what it cost. Where it is not enough it says so."""
    recording = load.load(name)
    assert recording.body is not None
    own = codec(recording.protocol)
    seen = own.summarize(json.dumps(recording.body).encode())
    if seen is not None:
        answer = own.decode_response(recording.body)
        assert (seen.id, seen.model) == (answer.id, answer.model)
        assert seen.stop in (answer.stop.reason, None)
        assert figures(seen.usage) == figures(answer.usage)


@pytest.mark.usefixtures("corpus")
def test_most_responses_need_no_more() -> None:
    """Otherwise it would be of no use."""
    recordings = [load.load(name) for name in load.bodies()]
    enough = [codec(one.protocol).summarize(json.dumps(one.body).encode()) for one in recordings]
    assert len([seen for seen in enough if seen is not None]) > 0.8 * len(enough)
    assert len([seen for seen in enough if seen is not None and seen.stop is not None]) > 0.8 * len(enough)

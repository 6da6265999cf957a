"""Two runs have the same text, and what differs in behaviour still shows."""

from __future__ import annotations

import json

from tests.scripted.tokens import Ids
from tests.transcripts import shown
from tests.transcripts.normalised import digest, normalised


def _text(number: int, seconds: float) -> str:
    ids = Ids(number)
    first, second = ids.make("msg_"), ids.make("msg_")
    made = {"id": first, "previous": second, "again": first, "created": 1_795_000_000 + number, "duration_ms": seconds}
    return f"retry-after: {number}\n{json.dumps(made)} at http://127.0.0.1:{4000 + number}/v1"


def test_ids_are_numbered_and_times_are_not() -> None:
    """By their first appearance, so that it shows which of them are the same."""
    texts = {normalised(_text(number, number * 1.5), {f"127.0.0.1:{4000 + number}": "GATEWAY"}) for number in (1, 2)}
    (text,) = texts
    assert text.startswith("retry-after: <seconds>\n")
    assert '"id": "<msg 1>", "previous": "<msg 2>", "again": "<msg 1>", "created": <time>' in text
    assert text.endswith('"duration_ms": <seconds>} at http://GATEWAY/v1')


def test_what_a_gateway_decides_stays() -> None:
    """Statuses, counts, texts and what is missing are no chance."""
    texts = ('{"status": 200, "ttft_ms": null}', '{"status": 200, "ttft_ms": 1.5}', '{"status": 429, "ttft_ms": null}')
    assert len({digest(normalised(text, {})) for text in texts}) == 3
    assert normalised(texts[0], {}) == texts[0]


def test_pieces_of_a_captured_body_are_put_together() -> None:
    """Also those that are not UTF-8, because a character was cut."""
    lines = [
        {"phase": "outbound_response", "status": 200},
        {"phase": "outbound_response", "text": "caf"},
        {"phase": "upstream_response", "attempt": 1, "text": "x"},
        {"phase": "outbound_response", "base64": "w6k="},
    ]
    found = [json.loads(line) for line in shown.capture("\n".join(map(json.dumps, lines)).encode()).splitlines()]
    assert [line.get("body") for line in found] == [None, "café", "x"]

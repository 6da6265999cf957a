"""Captures of a running gateway through `trilogue replay --policy`: the result is what a gateway with it sends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.gateway.pooling import ADMIN, Pooled, pooled
from tests.gateway.process import until
from tests.gateway.running import PROVIDERS
from tests.gateway.wire import CASES, Answer, exchange, post
from tests.scripted import thread
from tests.scripted.ask import PATHS, body
from trilogue.app.cli.replay import replay
from trilogue.capture import read_capture
from trilogue.capture.judged import judge_capture
from trilogue.model import Protocol
from trilogue.policies import load_policies
from trilogue.policies.engine import settle
from trilogue.translate.compare.detect import DocumentKind, is_stream
from trilogue.translate.compare.documents import ComparedDocument, compare_documents

POLICY = {"use": "tools", "name": "house", "deny": ["get_weather"], "words": "Not today."}
KEYS = """\
keys:
  - {key: key-of-free, name: free}
  - {key: key-of-ruled, name: ruled, policies: [house]}
policies:
  house: {use: tools, deny: [get_weather], words: Not today.}
capture: {sample: 1, folder: FOLDER}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("captured")


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Pooled]:
    """A gateway that captures everything, with a key under a policy and one without."""
    text = PROVIDERS.replace("keys: [env:TRILOGUE_KEY]\n", KEYS.replace("FOLDER", str(folder / "captures")))
    with thread.running() as up, pooled(folder, text + ADMIN, up) as gateway:
        yield gateway


def asked(served: Pooled, key: str) -> list[Answer]:
    """Return the responses to one request on every pair, streamed and not."""

    async def ask_all() -> list[Answer]:
        waiting = []
        for client, upstream, stream in CASES:
            data = json.dumps(body(client, f"{upstream.short}/parallel-tools", stream=stream)).encode()
            sent = post(PATHS[client], data, {"connection": "close"}, key=f"key-of-{key}")
            waiting.append(exchange(served.gateway.url, sent, seconds=20))
        return await asyncio.gather(*waiting)

    return asyncio.run(ask_all())


def document(client: Protocol, data: bytes) -> ComparedDocument:
    return ComparedDocument(DocumentKind.STREAM if is_stream(data) else DocumentKind.RESPONSE, client, data)


@pytest.mark.parametrize("key", ["free", "ruled"])
def test_a_replay_gives_what_the_gateway_gives(served: Pooled, folder: Path, key: str) -> None:
    """Also for requests that were captured under the policy."""
    expected, given = asked(served, "ruled"), asked(served, key)
    files = [folder / "captures" / f"{one.headers['x-request-id']}.jsonl" for one in given]
    until(lambda: all(file.exists() for file in files), 20)
    policies = load_policies([POLICY])
    for (client, *_), answer, file in zip(CASES, expected, files, strict=True):
        found = judge_capture(read_capture(file.read_bytes()), policies, settle)
        assert [one.verdict for one in found.records] == ["pass", "replace", "pass"]
        assert b"Not today." in answer.body
        differences = compare_documents(document(client, answer.body), document(client, found.steps[-1].body))
        # Responses objects repeat settings of the request, which the gateway takes from there.
        assert [one.path for one in differences if not one.path.startswith("extras.")] == []
    options = ["--policy", str(served.gateway.config_file)]
    done = CliRunner().invoke(replay, [*options, *map(str, files)])
    assert done.exit_code == (1 if key == "ruled" else 0)
    assert done.output.count("house: replace ToolCall") == (len(CASES) if key == "ruled" else 0)

"""The same loops with the official JavaScript SDK, where there is a node to run it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.gateway.pooling import secret
from tests.gateway.running import CLIENT_KEY
from tests.multiturn.agents import all_results
from tests.multiturn.gateways import MODELS, Gateway
from tests.multiturn.script import Json
from tests.multiturn.strict import StrictUpstream

STEPS = 10
FOLDER = Path(__file__).with_name("javascript")
NODE = shutil.which("node") or ""
NOT_READY = {
    "there is no node": not NODE,
    "`make javascript` has not installed it": not (FOLDER / "node_modules" / "openai").is_dir(),
}
pytestmark = [
    pytest.mark.slow,
    *(pytest.mark.skipif(absent, reason=f"JavaScript SDK not tested: {why}") for why, absent in NOT_READY.items()),
]


def check_loops(url: str, key: str, models: list[str], ways: tuple[str, ...]) -> None:
    """Run the script, and check what it saw."""
    command = [NODE, str(FOLDER / "loop.mjs"), f"{url}/v1", key, str(STEPS), ",".join(ways), *models]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found: Json = json.loads(done.stdout)
    for model in models:
        job = found[model].pop("background")
        assert job["first"] in ("queued", "in_progress")
        assert (job["status"], job["gone"]) == ("completed", 404)
        assert job["text"] == "word0 word1 word2 word3 word4 "
        for way, seen in found[model].items():
            assert (seen["turns"], seen["text"]) == (STEPS + 1, f"Done after {STEPS} steps."), (model, way)
            assert seen["seen"]["users"] == [f"loop {STEPS}", "recall"]
            assert seen["seen"]["results"] == all_results(STEPS)


def test_directly(up: StrictUpstream) -> None:
    """The script itself, at the strict upstream."""
    check_loops(up.url, secret("a"), ["gpt-5.4"], ("previous", "conversation", "background"))
    assert up.refusals == ["Response with id '" + up.refusals[0].split("'")[1] + "' not found."]


def test_loops(either: Gateway) -> None:
    """By `previous_response_id` and by conversation, and a response in the background."""
    check_loops(either.url, CLIENT_KEY, list(MODELS.values()), ("previous", "conversation", "background"))


def test_socket(one: Gateway) -> None:
    """Over WebSocket."""
    check_loops(one.url, CLIENT_KEY, list(MODELS.values()), ("socket", "background"))

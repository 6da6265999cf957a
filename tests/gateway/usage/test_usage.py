"""What a gateway counts of real requests, and what `trilogue usage`, `GET /usage` and metrics show of it."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.forking import run_text
from tests.gateway.pooling import ADMIN, Pooled, accepting, pooled, secret
from tests.gateway.process import environment, until
from tests.gateway.usage.killing import run
from tests.scripted import thread
from tests.timing import eventually_async
from trilogue.app.cli.app import app
from trilogue.model import Protocol

C, M, R = Protocol
CONFIG = f"""\
keys: [{{key: env:TRILOGUE_KEY, name: laptop}}]
server: {{workers: 2}}
providers:
  chat: {{protocol: openai_chat_completions, base_url: UPSTREAM/v1, models: [text], vendor: openai,
         accounts: [{{name: a, key: {secret("a")}}}], prices: {{text: {{input: 2, cached: 0.5, output: 8}}}}}}
  messages: {{protocol: anthropic_messages, base_url: UPSTREAM, accounts: [{{name: b, key: {secret("b")}}}]}}
aliases: {{fast: chat/text}}
price_file: prices.yaml
{ADMIN}
"""
PRICES = "messages: {text: {input: 3, cached: 0.3, output: 15}}\n"
PER_CHAT = (20 * 2 + 5 * 0.5 + 10 * 8) / 1_000_000
"""the cost of a response of the scripted upstream: 20 fresh tokens, 5 cached and 10 of output"""
PER_MESSAGES = (20 * 3 + 5 * 0.3 + 10 * 15) / 1_000_000


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    """Return a gateway of two workers that has served some requests."""
    folder = tmp_path_factory.mktemp("usage")
    (folder / "prices.yaml").write_text(PRICES)
    up = accepting("a", "b")
    up.by_key = {secret("a"): "", secret("b"): ""}
    with thread.running(up), pooled(folder, CONFIG, up) as made:
        for stream in (False, True):
            assert made.ask(C, "chat/text", stream=stream).status == 200
            assert made.ask(M, "fast", stream=stream).status == 200
            assert made.ask(C, "messages/text", stream=stream).status == 200
            # No price is known for this model.
            assert made.ask(C, "messages/length", stream=stream).status == 200
        up.by_key[secret("a")] = "error-400"
        assert made.ask(C, "chat/text").status == 400
        up.by_key[secret("a")] = ""
        # Names of clients for which no upstream responds are all the same row.
        for number in range(5):
            assert made.ask(C, f"chat/unknown-{number}").status == 404
        assert made.ask(C, "no-such-model").status == 404
        yield made


def shown(pool: Pooled, **asked: str) -> dict[str, Any]:
    answer = pool.admin.get("/usage", params=asked)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def running(pool: Pooled) -> list[dict[str, Any]]:
    """Return the requests that are not over yet."""
    found: list[dict[str, Any]] = pool.admin.get("/requests", params={"running": "true"}).json()["requests"]
    return found


def by(pool: Pooled, *columns: str) -> dict[tuple[str, ...], dict[str, Any]]:
    lines = shown(pool, by=",".join(columns))["usage"]
    return {tuple(line[column] for column in columns): line for line in lines}


def printed_by(folder: Path, *options: str) -> str:
    """Return what the command prints."""
    arguments = ["usage", "--config", str(folder / "trilogue.yaml"), *options]
    result = CliRunner().invoke(app, arguments, env=environment(folder))
    assert result.exit_code == 0, result.output
    return result.stdout


def command(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a process."""
    line = [sys.executable, "-m", "trilogue", "usage", "--config", str(folder / "trilogue.yaml"), *options]
    return run_text(line, environ=environment(folder))


def test_costs_are_exact(pool: Pooled) -> None:
    """Stated prices, those of a file, and an unknown one; all kinds of tokens; streamed or not, translated or not."""
    lines = by(pool, "account", "upstream_model")
    chat, messages = lines["chat/a", "text"], lines["messages/b", "text"]
    assert (chat["requests"], chat["errors"]) == (5, 1)
    assert chat["cost"] == pytest.approx(4 * PER_CHAT, abs=1e-15)
    assert (chat["input_tokens"], chat["fresh_tokens"], chat["cache_read_tokens"]) == (100, 80, 20)
    assert (chat["cache_write_tokens"], chat["output_tokens"], chat["reasoning_tokens"]) == (0, 40, 0)
    assert messages["cost"] == pytest.approx(2 * PER_MESSAGES, abs=1e-15)
    unknown = lines["messages/b", "length"]
    assert (unknown["cost"], unknown["unpriced_requests"], unknown["unmetered_requests"]) == (None, 2, 0)


def test_sums_by_columns(pool: Pooled) -> None:
    total = shown(pool)["total"]
    assert (total["requests"], total["errors"]) == (14, 6)
    (key,) = by(pool, "key").values()
    assert {name: key[name] for name in total} == total
    assert by(pool, "model")["fast",]["requests"] == 2
    assert len(by(pool, "day")) == 1
    only = shown(pool, by="model", account="messages/b")
    assert only["total"]["requests"] == 4
    assert shown(pool, since="2019-12-01", until="2020-01-01")["usage"] == []


def test_clients_cannot_make_rows(pool: Pooled) -> None:
    """Models that no upstream knows are one row; models without a route are none."""
    names = {name for (name,) in by(pool, "model")}
    assert names == {"chat/text", "fast", "messages/text", "messages/length", "other"}
    assert by(pool, "model")["other",]["requests"] == 5


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("by=color", "`by` must be some of day, hour"),
        ("since=yesterday", "`since` must be"),
        ("since=2026-13-01", "`since` must be"),
        ("until=7d", "`until` must be a date"),
        ("until=2020-01-01", "`until` is before `since`"),
        ("format=xml", "format must be json or csv"),
        ("colour=red", "there is no such parameter"),
    ],
)
def test_bad_questions(pool: Pooled, query: str, words: str) -> None:
    answer = pool.admin.get(f"/usage?{query}")
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    assert answer.json()["error"]["code"] == "bad_query"


def test_csv(pool: Pooled) -> None:
    """The same as the JSON; what is unknown is empty."""
    answer = pool.admin.get("/usage?by=account,upstream_model&format=csv")
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    lines = by(pool, "account", "upstream_model")
    assert {(row["account"], row["upstream_model"]) for row in rows} == set(lines)
    for row in rows:
        cost = lines[row["account"], row["upstream_model"]]["cost"]
        assert row["cost"] == ("" if cost is None else f"{cost:.12f}".rstrip("0").rstrip("."))


def test_the_command_shows_the_same(pool: Pooled) -> None:
    """It reads the files, with a total line; costs that are unknown are shown as such."""
    folder = pool.gateway.config_file.parent
    printed = [json.loads(line) for line in printed_by(folder, "--by", "model", "--json").splitlines()]
    assert printed == shown(pool, by="model")["usage"]
    table = printed_by(folder, "--by", "upstream_model,provider").splitlines()
    assert re.search(r"^length +messages +2 .* unknown +2$", "\n".join(table), re.MULTILINE)
    assert table[-1].split()[:3] == ["total", "14", "6"]
    refused = command(folder, "--since", "nonsense")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("trilogue: `since` must be")
    assert printed_by(folder, "--key", "nobody") == "nothing was used in this time\n"
    assert printed_by(folder, "--key", "nobody", "--csv").count("\n") == 1


def test_metrics(pool: Pooled) -> None:
    text = pool.admin.get("/metrics").text
    cost = re.search(r'^trilogue_cost_dollars_total\{provider="chat",model="text"\} (\S+)$', text, re.MULTILINE)
    assert cost is not None
    assert float(cost[1]) == pytest.approx(4 * PER_CHAT)
    assert 'trilogue_unpriced_requests_total{provider="messages",model="length"} 2' in text
    assert "trilogue_usage_store_failures_total 0" in text


def test_a_client_that_disconnects_has_unknown_cost(tmp_path: Path) -> None:
    """The provider charges for what it has made, and nobody says how much that is."""
    up = accepting("a", "b")
    (tmp_path / "prices.yaml").write_text(PRICES)
    with thread.running(up), pooled(tmp_path, CONFIG.replace("workers: 2", "workers: 1"), up) as pool:
        up.by_key[secret("a")] = "hang-mid"

        async def leave() -> None:
            asking = asyncio.create_task(pool.asking(C, "chat/text", stream=True))
            await eventually_async(lambda: any(row["first_token_ms"] for row in running(pool)))
            asking.cancel()

        asyncio.run(leave())
        until(lambda: shown(pool)["total"]["requests"] == 1)
        total = shown(pool)["total"]
        assert (total["errors"], total["unmetered_requests"], total["unpriced_requests"]) == (1, 1, 1)
        assert total["cost"] is None
        # Prices of a reload count for the requests that follow.
        up.by_key[secret("a")] = "text"
        (tmp_path / "trilogue.yaml").write_text(
            pool.gateway.config_file.read_text().replace("input: 2, cached: 0.5, output: 8", "input: 0, output: 0")
        )
        pool.gateway.signal(signal.SIGHUP)
        pool.gateway.wait_for_log('"reloaded"')
        assert pool.ask(C, "chat/text").status == 200
        assert shown(pool)["total"]["cost"] == 0
        os.kill(pool.gateway.pid, signal.SIGKILL)
        pool.gateway.process.wait()
        printed = json.loads(printed_by(tmp_path, "--by", "key", "--json"))
        assert (printed["key"], printed["requests"]) == ("laptop", 2)


def test_workers_that_are_killed(tmp_path: Path) -> None:
    """Everything that clients got a response for is counted, once; `killing` has a longer form of this."""
    storm, counted = asyncio.run(run(tmp_path, 300, 2, 2))
    assert storm.kills == 2
    assert len(storm.answered) > 200
    assert storm.problems(counted) == []

"""The command line as a user types it: real processes, real files, and one clear line for every error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forking

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
REQUEST = EXAMPLES / "messages-request.json"
STREAM = EXAMPLES / "chat-stream.sse"
FULL = Path("/dev/full")


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return forking.run([sys.executable, "-m", "trilogue", *arguments], stdin=stdin)


def test_request_is_converted() -> None:
    """The result goes to standard output, losses to standard error."""
    done = run("convert", "--from", "messages", "--to", "responses", str(REQUEST))
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    assert body["model"] == json.loads(REQUEST.read_bytes())["model"]
    assert all(line.startswith(b"lost: ") for line in done.stderr.splitlines())


def test_standard_input_works_alike() -> None:
    """The file name "-" means standard input."""
    arguments = ("convert", "--from", "messages", "--to", "chat")
    piped = run(*arguments, "-", stdin=REQUEST.read_bytes())
    assert piped.returncode == 0
    assert piped.stdout == run(*arguments, str(REQUEST)).stdout


def test_stream_is_recognised_and_converted() -> None:
    """An .sse file needs no --kind."""
    done = run("convert", "--from", "chat", "--to", "messages", str(STREAM))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"event: message_start\n")
    assert done.stdout.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')


def test_cut_stream_ends_in_a_native_error_and_exit_code_1() -> None:
    """A truncated stream is never a success."""
    half = STREAM.read_bytes()
    done = run("convert", "--from", "chat", "--to", "messages", "--kind", "stream", stdin=half[: len(half) // 2])
    assert done.returncode == 1
    assert b"event: error" in done.stdout
    assert b"message_stop" not in done.stdout
    assert b"ended in an error" in done.stderr


def test_strict_fails_instead_of_losing() -> None:
    """The exit code is 2, the loss is named, and nothing is on standard output."""
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}], "seed": 7}
    done = run("convert", "--from", "chat", "--to", "messages", "--strict", stdin=json.dumps(body).encode())
    assert done.returncode == 2
    assert done.stdout == b""
    assert b"seed" in done.stderr


def test_response_with_its_request_restores_names(tmp_path: Path) -> None:
    """--request supplies what the translation of a response needs."""
    name = "x" * 100
    request = {
        "model": "m",
        "max_tokens": 10,
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"name": name, "input_schema": {"type": "object"}}],
    }
    (tmp_path / "request.json").write_text(json.dumps(request))
    converted = run("convert", "--from", "messages", "--to", "chat", str(tmp_path / "request.json"))
    mangled = json.loads(converted.stdout)["tools"][0]["function"]["name"]
    call = {"id": "call_1", "type": "function", "function": {"name": mangled, "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer = {"id": "c", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    arguments = (
        "--from",
        "chat",
        "--to",
        "messages",
        "--kind",
        "response",
        "--request",
        str(tmp_path / "request.json"),
    )
    done = run("convert", *arguments, stdin=json.dumps(answer).encode())
    assert mangled != name
    assert json.loads(done.stdout)["content"][0]["name"] == name


def test_collect_gives_the_whole_response() -> None:
    """A recorded stream becomes one body."""
    done = run("collect", "--protocol", "chat", str(STREAM))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["object"] == "chat.completion"


def test_lint_of_our_own_output_is_clean() -> None:
    """Lint accepts what convert writes."""
    converted = run("convert", "--from", "chat", "--to", "responses", str(STREAM)).stdout
    done = run("lint", "--protocol", "responses", "--kind", "stream", "--own", stdin=converted)
    assert done.returncode == 0, done.stdout


def test_lint_names_rule_event_and_client() -> None:
    """The exit code is 1, with a line per violated rule."""
    broken = b'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_1"}}\n\n'
    done = run("lint", "--protocol", "responses", stdin=broken)
    assert done.returncode == 1
    assert b"D03 error: event 0" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["convert", "--from", "chat", "--to", "messages"], b"", b"not valid JSON: it is empty"),
        (["convert", "--from", "chat", "--to", "messages"], b"[]", b"must be a JSON object"),
        (["convert", "--from", "chat", "--to", "messages"], b"{}", b"required"),
        (["convert", "--from", "chat", "--to", "messages"], b"\xff\xfe", b"not valid JSON: it is not in UTF-8"),
        (["convert", "--from", "chat", "--to", "messages", "--request", "x"], b"{}", b"--request is for responses"),
        (["convert", "--from", "chat", "--to", "messages", "--repair", str(STREAM)], b"", b"--repair is for req"),
        (["convert", "--from", "chat", "--to", "messages", "--request", "-", str(STREAM)], b"", b"-: not valid JSON"),
        (["lint", "--protocol", "chat", "--request", "-", str(STREAM)], b"[]", b"-: the file must contain a JSON"),
        (["lint", "--protocol", "chat"], b"[]", b"the file must contain a JSON object"),
        (["convert", "--from", "chat", "--to", "messages"], b"[" * 100_000, b"nested too deeply"),
        (["convert", "--from", "chat", "--to", "messages"], b'{"model":1,"messages":[]}', b"model must be a string"),
        (["convert", "--from", "telegram", "--to", "messages"], b"{}", b"not one of chat, messages, responses"),
        (["convert", "--from", "chat", "--to", "messages", "no-such-file.json"], b"", b"cannot read no-such-file.json"),
        (["convert", "--from", "chat", "--to", "messages", "--kind", "response"], b"{}", b"trilogue: "),
        (["collect", "--protocol", "chat"], b"data: {}\n\n", b"trilogue: "),
        (["lint", "--protocol", "chat", "--kind", "response"], b"nonsense", b"not valid JSON"),
        (["frobnicate"], b"", b"No such command"),
    ],
)
def test_bad_input_gives_one_line_and_exit_code_2(arguments: list[str], stdin: bytes, message: bytes) -> None:
    """There is never a traceback."""
    done = run(*arguments, stdin=stdin)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(not FULL.exists(), reason="needs a file that is always full")
@pytest.mark.parametrize(
    "arguments",
    [
        ["losses"],
        ["check", "--schema"],
        ["convert", "--from", "chat", "--to", "messages", str(STREAM)],
        ["collect", "--protocol", "chat", str(STREAM)],
    ],
)
def test_full_disk_gives_one_line(arguments: list[str]) -> None:
    """There is never a traceback, and the exit code is never 0."""
    with FULL.open("wb") as full:
        command = [sys.executable, "-m", "trilogue", *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == b"trilogue: cannot write: No space left on device"
    assert b"Traceback" not in done.stderr


def test_closed_standard_output_causes_no_traceback() -> None:
    """Standard output may be closed, as with `>&-` in a shell."""
    command = f"{sys.executable} -m trilogue convert --from chat --to messages {STREAM} >&-"
    done = subprocess.run(["/bin/sh", "-c", command], stderr=subprocess.PIPE, timeout=60, check=False)
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("real", ["chat", "messages", "responses"])
@pytest.mark.parametrize("said", ["chat", "messages", "responses"])
def test_a_stream_of_another_protocol_is_named(real: str, said: str) -> None:
    """The stream is not reported as truncated; the message names the option that is wrong."""
    stream = STREAM.read_bytes()
    if real != "chat":
        stream = run("convert", "--from", "chat", "--to", real, str(STREAM)).stdout
    for arguments, option in (
        (("convert", "--to", "chat", "--from"), b"--from"),
        (("collect", "--protocol"), b"--pro"),
    ):
        done = run(*arguments, said, *(("--kind", "stream") if arguments[0] == "convert" else ()), stdin=stream)
        if said == real:
            assert done.returncode == 0, done.stderr
        else:
            assert (done.returncode, done.stdout) == (2, b"")
            assert f"this is a stream of {real}, not of {said} (see ".encode() + option in done.stderr


ERRORS = {
    "chat": {"error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}},
    "messages": {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}, "request_id": "req_1"},
    "responses": {"error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}},
}


@pytest.mark.parametrize("protocol", ERRORS)
def test_lint_knows_an_error_when_it_sees_one(protocol: str) -> None:
    """Without --kind, an error is not linted as a response in which everything is missing."""
    done = run("lint", "--protocol", protocol, stdin=json.dumps(ERRORS[protocol]).encode())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"0 broken rules, 0 notes\n")


def test_lint_takes_a_failed_response_for_a_response() -> None:
    """A failed response has an error too, but the rules for responses apply."""
    body = {"object": "response", "status": "failed", "error": {"code": "server_error", "message": "no"}, "output": []}
    done = run("lint", "--protocol", "responses", stdin=json.dumps(body).encode())
    assert done.returncode == 1
    assert b"id" in done.stdout


def test_lint_counts_as_people_do() -> None:
    """The singular and the plural are right: one note, two notes."""
    done = run("lint", "--protocol", "messages", "--kind", "request", str(REQUEST))
    assert done.stderr == b"0 broken rules, 1 note\n"


@pytest.mark.parametrize("command", [[], ["convert"], ["collect"], ["lint"], ["losses"]])
def test_help_describes_the_commands(command: list[str]) -> None:
    """--help says what a command does, and shows an example where one helps."""
    done = run(*command, "--help")
    assert done.returncode == 0
    assert b"Usage: trilogue" in done.stdout
    if command in (["convert"], ["lint"]):
        assert b"trilogue " + command[0].encode() + b" --" in done.stdout

"""`trilogue replay`: translate captured requests and responses again, and compare with what was captured."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TypedDict, Unpack

import click
import yaml

from trilogue import Protocol, TrilogueError
from trilogue.app.cli.capture_tests import make_test
from trilogue.app.cli.files import PROTOCOL, key_in, read
from trilogue.app.cli.probe_client import ProbedServer, Received, ask_once
from trilogue.app.cli.replay_policies import ANSWER, judge_files
from trilogue.app.cli.tables import counted
from trilogue.app.cli.verdicts import print_differences
from trilogue.capture import Capture, CaptureError, Change, Replayed, ReplayStep, read_capture
from trilogue.capture.live import NAME as LIVE
from trilogue.capture.live import compare_live
from trilogue.capture.replay import profile_with
from trilogue.capture.replay import replay as replay_capture
from trilogue.model import Json

DIFFERS, CANNOT = 1, 2
NAMES = ("captured", "now")


class ReplayOptions(TypedDict):
    """The command-line options of `trilogue replay`, as click passes them."""

    to: Protocol | None
    profile: tuple[str, ...]
    upstream: str | None
    key_env: str | None
    as_test: str | None
    policy: tuple[str, ...]
    answer: str | None
    json: bool


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--to", type=PROTOCOL, help="Translate the request to this protocol instead of the captured one.")
@click.option(
    "--profile",
    metavar="FIELD=VALUE",
    multiple=True,
    help="Change a field of the model's profile; can be given several times.",
)
@click.option("--upstream", metavar="URL", help="Also send the request to this server, and compare its response.")
@click.option("--key-env", metavar="NAME", help="With --upstream: the environment variable that has the server's key.")
@click.option("--as-test", metavar="DIR", help="Make a test case of each file in this folder, instead of printing.")
@click.option(
    "--policy",
    metavar="POLICY",
    multiple=True,
    help="Apply a policy: a name, FILE.py[:CLASS], MODULE:CLASS, or a YAML file; can be given several times.",
)
@click.option("--answer", type=ANSWER, help="With --policy: what policies that ask are told: yes, no, or a score.")
@click.option("--json", is_flag=True, help="Print one JSON object per difference, and per verdict.")
def replay(files: tuple[str, ...], **options: Unpack[ReplayOptions]) -> None:
    """Run the translation of captured requests again, offline, and compare it with what was captured.

    Requests are compared by meaning, streams event by event. With --to or --profile, the differences show what the
    change leads to.

    \b
    trilogue replay captures/*.jsonl
    trilogue replay --profile developer_role=false capture.jsonl
    trilogue replay --as-test tests/captures capture.jsonl

    Exit codes: 0 no differences, 1 differences, 2 a file cannot be replayed.

    With --policy, the captured requests and responses go through policies instead, and the differences are those that
    the policies make. FILE may then also be a recorded request, response or stream.

    \b
    trilogue replay --policy no_shell.py captures/*.jsonl
    trilogue replay --policy trilogue.yaml captures/*.jsonl
    trilogue replay --policy judge.yaml --answer 0.9 capture.jsonl

    Exit codes with --policy: 0 everything passes, 1 a policy changes or stops something, 2 a file or a policy cannot be
    used, or a policy could not decide.
    """
    if options["policy"]:
        sys.exit(_judged(files, options))
    if options["answer"] is not None:
        raise click.UsageError("--answer needs --policy")
    change = Change(protocol=options["to"], profile=dict(_setting(one) for one in options["profile"]))
    try:
        profile_with(change.profile)
    except CaptureError as error:
        raise click.UsageError(f"--profile: {error}") from None
    worst = 0
    for path in files:
        worst = max(worst, _replayed(path, change, options))
    if worst:
        sys.exit(worst)


def _judged(files: tuple[str, ...], options: ReplayOptions) -> int:
    others = (options["to"], options["profile"], options["upstream"], options["as_test"])
    if any(others):
        raise click.UsageError("--policy cannot be combined with --to, --profile, --upstream or --as-test")
    return judge_files(files, options["policy"], options["answer"], json=options["json"])


def _setting(text: str) -> tuple[str, Json]:
    """Return a field of a profile and its value, which is written as in the configuration file."""
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--profile must be FIELD=VALUE, not {text}")
    try:
        return name.strip(), yaml.safe_load(value)
    except yaml.YAMLError:
        raise click.UsageError(f"--profile: the value of {name} is not valid") from None


def _replayed(path: str, change: Change, options: ReplayOptions) -> int:
    """Replay one file, and return its exit code."""
    try:
        data = read(path)
        capture = read_capture(data)
        replayed = replay_capture(capture, change)
        steps = [*replayed.steps, *_live(capture, change, options)]
    except (TrilogueError, click.UsageError) as error:
        message = error.message if isinstance(error, click.UsageError) else str(error)
        click.echo(f"{path}: {message}", err=True)
        return CANNOT
    if options["as_test"] is not None:
        name = capture.head.request_id if path == "-" else Path(path).stem
        click.echo(make_test(name, data, replayed, Path(options["as_test"])))
        return 0
    return _report(path, Replayed(steps), options["json"])


def _live(capture: Capture, change: Change, options: ReplayOptions) -> list[ReplayStep]:
    url = options["upstream"]
    if url is None:
        return []

    def send(protocol: Protocol, body: dict[str, Json]) -> Received:
        return asyncio.run(ask_once(ProbedServer(url=url, protocol=protocol, key=key_in(options["key_env"])), body))

    return [compare_live(capture, change, send)]


def _report(path: str, replayed: Replayed, json: bool) -> int:
    for step in replayed.steps:
        if not json:
            click.echo(f"{path}: {step.name}: {_result(step)}")
            for loss in step.losses:
                click.echo(f"  lost: {loss}")
        print_differences(step.differences, NAMES, json=json, where=f"{path}: {step.name}")
    if replayed.differences:
        return DIFFERS
    if not replayed.compared:
        click.echo(f"{path}: nothing could be compared", err=True)
        return CANNOT
    # A server that was asked for and did not respond is no success.
    return CANNOT if any(step.skipped for step in replayed.steps if step.name == LIVE) else 0


def _result(step: ReplayStep) -> str:
    if step.skipped:
        return f"not compared: {step.skipped}"
    return counted(len(step.differences), "difference") if step.differences else "same"

"""`trilogue replay --policy`: captured requests and responses go through policies, offline.

Policies come from a name, a Python file, a module or a YAML file. They are driven as in the gateway, with the same time
limits, except that nobody is there to answer their questions: `--answer` says what they are told.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from trilogue import TrilogueError
from trilogue.app.build import policy_table
from trilogue.app.cli.files import read
from trilogue.app.cli.tables import counted
from trilogue.app.cli.verdicts import print_differences, verdict_text
from trilogue.base.json_text import dump_text
from trilogue.capture import is_capture, read_capture
from trilogue.capture.judged import JudgedReplay, JudgedTraffic, Settle, judge_capture, judge_document, subject_of
from trilogue.capture.replay import ReplayStep
from trilogue.config.config import Config
from trilogue.config.load import load
from trilogue.config.policies import located
from trilogue.config.yaml_file import read_document as read_yaml
from trilogue.errors import ConfigError
from trilogue.gateway.policies.run import HookThreads, answer
from trilogue.model import Event, Json
from trilogue.policies import Pending, Policy, PolicyError, PolicyRun, load_policies, load_policy
from trilogue.policies.shipped.approve import ApprovalQuestion
from trilogue.policies.shipped.judge import JudgeQuestion
from trilogue.routing.model_names import NoRoute
from trilogue.translate.compare.documents import read_document
from trilogue.upstreams.build import router_of

PASSES, CHANGES, CANNOT = 0, 1, 2
NAMES = ("without", "with")
YAML = (".yaml", ".yml", ".json")
YES, NO = "yes", "no"
SHOWN = ("policy", "stage", "verdict", "reason", "block", "kind", "matches")
"""the fields of a record that are printed; times would differ in every run"""

Chooser = Callable[[JudgedTraffic], tuple[Policy, ...]]
"""returns the policies for a captured request"""


class AnswerType(click.ParamType[str]):
    """An option whose value is yes, no, or a number from 0 to 1."""

    name = "answer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the answer, or fail with a usage error."""
        if value in (YES, NO):
            return str(value)
        try:
            score = float(value)
        except ValueError:
            score = -1.0
        if not 0 <= score <= 1:
            self.fail(f"{value!r} is neither yes nor no nor a score from 0 to 1", param, ctx)
        return str(score)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return how `--help` shows the value."""
        return "[yes|no|SCORE]"


ANSWER = AnswerType()


class NobodyAnswers(LookupError):
    """A policy asks a question, and no answer was given for it."""


def judge_files(files: Sequence[str], given: Sequence[str], answered: str | None, *, json: bool) -> int:
    """Apply policies to files and print what they decide. Return the exit code. Raises UsageError."""
    try:
        choosers = [_chooser(text) for text in given]
    except (PolicyError, ConfigError) as error:
        raise click.UsageError(f"--policy: {error}") from None
    worst = PASSES
    with asyncio.Runner() as runner:
        driver = _Driver(runner, answered)
        for path in files:
            worst = max(worst, _judge_file(path, choosers, driver.settle, json=json))
    for name in driver.unanswered:
        click.echo(f"{name} asks a question that nobody answers here: add --answer yes, no or a score", err=True)
    return worst


class _Driver:
    """Drives runs as the gateway does, with one answer for all questions. `unanswered`: policies that got none."""

    def __init__(self, runner: asyncio.Runner, answered: str | None) -> None:
        self._runner = runner
        self._answered = answered
        self._threads = HookThreads()
        self.unanswered: dict[str, None] = {}

    def settle(self, run: PolicyRun) -> list[Event]:
        """Get everything that a run waits for, and return the events that may go on after that."""
        return self._runner.run(self._settle(run)) if run.pending is not None else []

    async def _settle(self, run: PolicyRun) -> list[Event]:
        events: list[Event] = []
        while run.pending is not None:
            events += await answer(run, self._ask, self._threads)
        return events

    async def _ask(self, pending: Pending) -> object:
        found = None if self._answered is None else _answer_to(pending.question, self._answered)
        if found is None:
            self.unanswered[pending.policy] = None
            raise NobodyAnswers
        return found


def _answer_to(question: object, given: str) -> object:
    """Return the answer in the form that a question needs; None if it does not fit."""
    decided = {YES: True, NO: False}.get(given)
    if isinstance(question, JudgeQuestion):
        # Yes means that the block may go on, so it has no risk.
        return f"SCORE: {given if decided is None else int(not decided)}"
    if isinstance(question, ApprovalQuestion):
        return decided
    return float(given) if decided is None else decided


def _chooser(text: str) -> Chooser:
    """Return what chooses the policies that an option names. Raises PolicyError or ConfigError."""
    path = Path(text)
    if path.suffix not in YAML:
        policy = load_policy(text, "")
        return lambda _: (policy,)
    try:
        content = read_yaml(path.read_bytes()).data
    except OSError as error:
        raise PolicyError(f"cannot read {text}: {error.strerror}") from None
    if isinstance(content, dict) and "use" not in content:
        return _of_config(load(path, os.environ, secrets=False), text)
    entries = content if isinstance(content, list) else [content]
    policies = load_policies([_entry(one, path.parent) for one in entries])
    return lambda _: policies


def _entry(written: Any, folder: Path) -> dict[str, Json]:
    """Return an entry of a list of policies with complete paths. Raises PolicyError if it is none."""
    entry = {"use": written} if isinstance(written, str) else written
    if not isinstance(entry, dict):
        raise PolicyError("a policy must be its name, or settings with its name under use")
    return {"name": str(entry.get("use")), **entry, "use": located(entry.get("use"), folder)}


def _of_config(config: Config, name: str) -> Chooser:
    """Return what chooses policies as the gateway with this configuration does."""
    router = router_of(config)
    table, keys = policy_table(config, router), {key.name: key.policies for key in config.keys}
    if table is None:
        raise PolicyError(f"{name} configures no policies")

    def choose(subject: JudgedTraffic) -> tuple[Policy, ...]:
        try:
            targets = router.resolve(subject.model, subject.client).targets
        except NoRoute:
            targets = ()
        return table.of(keys.get(subject.key, ()), subject.model, subject.client, targets).policies

    return choose


def _judge_file(path: str, choosers: Sequence[Chooser], settle: Settle, *, json: bool) -> int:
    """Apply the policies to one file, and return its exit code."""
    try:
        judged = _judged(read(path), choosers, settle)
    except (TrilogueError, click.UsageError) as error:
        message = error.message if isinstance(error, click.UsageError) else str(error)
        click.echo(f"{path}: {message}", err=True)
        return CANNOT
    _report(path, judged, json=json)
    if judged.failed or all(step.skipped for step in judged.steps):
        return CANNOT
    return CHANGES if judged.changed else PASSES


def _judged(data: bytes, choosers: Sequence[Chooser], settle: Settle) -> JudgedReplay:
    if is_capture(data):
        capture = read_capture(data)
        return judge_capture(capture, _chosen(choosers, subject_of(capture)), settle)
    document = read_document(data)
    return judge_document(document, _chosen(choosers, JudgedTraffic(client=document.protocol)), settle)


def _chosen(choosers: Sequence[Chooser], subject: JudgedTraffic) -> tuple[Policy, ...]:
    return tuple(dict.fromkeys([policy for choose in choosers for policy in choose(subject)]))


def _report(path: str, judged: JudgedReplay, *, json: bool) -> None:
    rows: list[dict[str, Json]] = [{name: getattr(record, name) for name in SHOWN} for record in judged.records]
    for row in rows:
        click.echo(dump_text({"file": path, **row}) if json else f"{path}: {verdict_text(row)}")
    for step in judged.steps:
        if not json:
            click.echo(f"{path}: {step.name}: {_result(step)}")
        print_differences(step.differences, NAMES, json=json, where=f"{path}: {step.name}")


def _result(step: ReplayStep) -> str:
    if step.skipped:
        return step.skipped
    return counted(len(step.differences), "difference") if step.differences else "unchanged"

"""A soak with real agents: Claude Code and Codex work for hundreds of turns through a gateway.

    PATH=FOLDER/node_modules/.bin:$PATH python -m tests.agents.soak --turns 200
    python -m tests.agents.soak --client codex --codex-name OpenAI --turns 40

The model is scripted, the upstreams are strict (tests/agents/upstream.py). One session of a client goes through
upstreams of all protocols, one after the other, and meets tool errors, pictures, compactions, cut streams, limits, and
accounts that die. Prints a table in Markdown, and exits with 1 if a session ended, a request would be refused by its
vendor, memory grew, or the session cost more than it must.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from tests.agents import scenario
from tests.agents.clients import CLAUDE, CODEX, ClaudeCode, Client, Codex, find
from tests.agents.cost import Bill, bills
from tests.agents.relay import Relay, relaying
from tests.agents.upstream import DEATH, FAULTS, LEGS, AgentUpstream, Asked, Fault, Leg, Plan
from tests.gateway.process import Started, started
from tests.gateway.running import CLIENT_KEY
from tests.scripted import thread
from trilogue.model import Protocol

CLOCKS = """\
server: {timeouts: {connect: 20, first_byte: 20, first_event: 20, between_events: 20, total: 120}}
pool: {retry_budget: {window_seconds: 6}}
"""
"""A scripted model responds at once, so that a minute of a session takes six seconds."""
SPEAKS = {CLAUDE: Protocol.MESSAGES, CODEX: Protocol.RESPONSES}
LIMITS = {CLAUDE: 20_000, CODEX: 18_000}
"""tokens of context after which a client compacts"""
MOST_GROWTH_MB = 16.0
MOST_OVER = 0.05
LEAST_REQUESTS = 20
"""to judge the cost by: of fewer, most are the first ones of an account, and its cache is cold"""
WARM_SHARE = 0.25
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAFklEQVR4nGMwSDhAEmIY1TCqYfhqAAARLlAQx+tdQgAAAABJRU5ErkJggg=="
)
"""16 by 16 pixels of one colour"""


@dataclass(frozen=True)
class Stretch:
    """One run of a client: on which upstream, and up to which step."""

    leg: Leg
    first: int
    last: int


@dataclass
class Outcome:
    """What a soak of one client has found."""

    client: str
    version: str
    turns: int
    seconds: float
    stretches: list[Stretch]
    upstream: AgentUpstream
    bills: dict[str, Bill]
    memory: list[float]
    problems: list[str] = field(default_factory=list)


def stretches(turns: int, legs: Sequence[Leg] = LEGS) -> list[Stretch]:
    """Divide steps among the upstreams. The first comes back at the end, with everything that happened since."""
    order = [*legs, legs[0]] if len(legs) > 1 else list(legs)
    each = math.ceil(turns / len(order))
    return [Stretch(leg, index * each + 1, (index + 1) * each) for index, leg in enumerate(order)]


def plan(runs: Sequence[Stretch]) -> Plan:
    """Plan a fault at every third step, and the death of an account once at each upstream, in the middle."""
    faults: dict[int, Fault] = {}
    steps = range(2, runs[-1].last + 1, 3)
    faults |= {step: FAULTS[index % len(FAULTS)] for index, step in enumerate(steps)}
    seen: set[str] = set()
    for run in runs:
        if run.leg.name not in seen:
            faults[(run.first + run.last) // 2] = DEATH
        seen.add(run.leg.name)
    return Plan(faults)


def config(legs: Sequence[Leg], more: str = "") -> str:
    """Return the gateway's configuration."""
    return "\n".join([CLOCKS, "keys: [env:TRILOGUE_KEY]", "providers:", *(leg.config() for leg in legs), more])


def project(folder: Path, steps: int) -> Path:
    """Make the folder that the agents work in."""
    folder.mkdir()
    (folder / "note.txt").write_text(f"{scenario.NOTE}\n")
    (folder / "picture.png").write_bytes(PNG)
    for step in range(1, steps + 1):
        if scenario.step_at(step).name.startswith("edit"):
            (folder / f"slot-{step}.txt").write_text("open\n")
    return folder


@contextmanager
def setting(folder: Path, runs: Sequence[Stretch], speaks: Protocol) -> Iterator[tuple[AgentUpstream, Started, Relay]]:
    """Run the upstreams, a gateway and the relay in front of it."""
    upstream = AgentUpstream(str(folder / "project"), plan(runs), speaks, most=3 * runs[-1].last + 50)
    legs = list(dict.fromkeys(run.leg for run in runs))
    with (
        thread.running(upstream),
        started(folder, config(legs), upstream.url) as gateway,
        relaying(gateway.url) as relay,
    ):
        yield upstream, gateway, relay


def client_of(name: str, url: str, home: Path, codex_name: str = "Trilogue") -> Client:
    """Return a client by name, with the small limit of context that makes it compact."""
    if name == CLAUDE:
        return ClaudeCode(url, CLIENT_KEY, home, LIMITS[name])
    return Codex(url, CLIENT_KEY, home, LIMITS[name], provider=codex_name)


def soak(
    name: str, runs: Sequence[Stretch], folder: Path, *, codex_name: str = "Trilogue", bodies: str = ""
) -> Outcome:
    """Run one client's session over all stretches, and judge it."""
    began = time.monotonic()
    project(folder / "project", runs[-1].last)
    memory: list[float] = []
    problems: list[str] = []
    with setting(folder, runs, SPEAKS[name]) as (upstream, gateway, relay):
        client = client_of(name, relay.url, folder / "home", codex_name)
        upstream.client_body = lambda: relay.exchanges[-1].request.json
        upstream.on_request = lambda: memory.append(gateway.rss() / 1e6)
        version = client.version()
        for run in runs:
            ended = client.run(folder / "project", scenario.prompt(run.last), run.leg.name)
            if ended.code or ended.words.strip() != scenario.last_words(run.last):
                what = f"ended with code {ended.code} and the words {ended.words!r}\n{ended.printed}"
                problems.append(f"{run.leg.name}, steps {run.first} to {run.last}: {what}")
            print(f"{name}: {run.leg.name}: step {run.last}, {ended.seconds:.1f} s", file=sys.stderr)
        failures = [line for line in gateway.lines if line["level"] == "error" and line["event"] != "request"]
        paid = bills(relay.exchanges, upstream.asked, SPEAKS[name])
        if bodies:
            write_bodies(Path(bodies) / name, upstream, relay, gateway)
            lines = [f"{leg}: {line}\n" for leg, bill in paid.items() for line in bill.steps]
            (Path(bodies) / name / "usage.txt").write_text("".join(lines))
    outcome = Outcome(
        name, version, len(upstream.asked), time.monotonic() - began, list(runs), upstream, paid, memory, problems
    )
    outcome.problems += judged(outcome, failures)
    return outcome


def write_bodies(folder: Path, upstream: AgentUpstream, relay: Relay, gateway: Started) -> None:
    """Write what the client and the gateway have sent, in the order of time, and the gateway's log."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gateway.log").write_text(gateway.log)
    sent = [(one.request.time, f"client-{one.status}", one.request.body, one.answer) for one in relay.exchanges]
    sent += [
        (one.time, f"{one.leg.provider}-{one.account}-{one.fault or 'ok'}", json.dumps(one.body).encode(), b"")
        for one in upstream.asked
    ]
    for number, (_, name, body, answer) in enumerate(sorted(sent)):
        (folder / f"{number:04}-{name.replace(' ', '-')}.json").write_bytes(body)
        if answer:
            (folder / f"{number:04}-answer.txt").write_bytes(answer)


def judged(outcome: Outcome, errors: list[dict[str, object]]) -> list[str]:
    """Return what is wrong, apart from how the runs ended."""
    found = [f"{count} x {text}" for text, count in Counter(outcome.upstream.problems).items()]
    found += [f"error in the gateway's log: {str(line)[:400]}" for line in errors]
    if (growth := grown(outcome.memory)) > MOST_GROWTH_MB:
        found.append(f"memory grew by {growth:.1f} MB after the warm-up")
    for leg in dict.fromkeys(run.leg for run in outcome.stretches):
        asked = [one for one in outcome.upstream.asked if one.leg is leg]
        refused, reasons = sum(bool(one.refused) for one in asked), reasons_for_refusals(asked)
        if refused > reasons:
            found.append(f"{leg.name}: {refused} requests were refused, and there are reasons for {reasons}")
    for name, bill in outcome.bills.items():
        if bill.over > MOST_OVER and bill.requests >= LEAST_REQUESTS:
            found.append(f"{name}: input cost {bill.paid:.3f} per token, ideal is {bill.ideal:.3f} (+{bill.over:.0%})")
    return found


def reasons_for_refusals(asked: Sequence[Asked]) -> int:
    """Return how many refusals a gateway cannot avoid: one for the first request, for each account that comes after
    another, whose reasoning it does not take, and for each stream that was cut after its reasoning."""
    answered = [one for one in asked if one.usage is not None or one.refused]
    changes = sum(one.account != before.account for before, one in pairwise(answered))
    return 1 + changes + sum(bool(one.fault) and one.usage is not None for one in asked)


def grown(memory: Sequence[float]) -> float:
    """Return by how many MB memory grew after the warm-up: the last tenth against what came after the first quarter."""
    warm = memory[int(len(memory) * WARM_SHARE) :]
    tenth = max(len(warm) // 10, 1)
    return sum(warm[-tenth:]) / tenth - sum(warm[:tenth]) / tenth if warm else 0.0


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the report as a table in Markdown."""
    lines = [
        "| client | upstream | requests | compactions | faults | refused | read | ideal | cost | ideal |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for outcome in outcomes:
        for leg in dict.fromkeys(run.leg for run in outcome.stretches):
            asked = [one for one in outcome.upstream.asked if one.leg is leg]
            bill = outcome.bills.get(leg.name, Bill())
            cells = [
                f"{outcome.client} {outcome.version}",
                leg.name,
                str(len(asked)),
                str(sum(one.summary for one in asked)),
                str(sum(bool(one.fault) for one in asked)),
                str(sum(bool(one.refused) for one in asked)),
                f"{bill.read / max(bill.total, 1):.1%}",
                f"{bill.ideal_read / max(bill.ideal_total, 1):.1%}",
                f"{bill.paid:.3f}",
                f"{bill.ideal:.3f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def report(outcome: Outcome) -> list[str]:
    """Return what is said of one client below the table."""
    faults = Counter(one.fault for one in outcome.upstream.asked if one.fault)
    refused = Counter(one.refused for one in outcome.upstream.asked if one.refused)
    memory = outcome.memory or [0.0]
    lines = [
        f"{outcome.client}: {outcome.turns} requests in {outcome.seconds:.0f} s; memory {memory[0]:.0f} to "
        f"{memory[-1]:.0f} MB, {grown(memory):+.1f} MB after the warm-up; "
        + ", ".join(f"{count} x {name}" for name, count in faults.items())
    ]
    lines += [f"  refused and recovered {count} x: {text}" for text, count in refused.items()]
    lines += [f"  PROBLEM {text}" for text in outcome.problems]
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=200, help="steps of each client (default: 200)")
    parser.add_argument("--client", choices=(CLAUDE, CODEX, "both"), default="both", help="default: both")
    parser.add_argument("--upstream", choices=[leg.provider for leg in LEGS], action="append", help="only this one")
    parser.add_argument("--codex-name", default="Trilogue", help="the name of Codex's provider (OpenAI is special)")
    parser.add_argument("--bodies", default="", help="write all requests and the log to this folder")
    given = parser.parse_args(arguments)
    names = [CLAUDE, CODEX] if given.client == "both" else [given.client]
    if missing := [name for name in names if not find(name)]:
        parser.error(f"not installed: {', '.join(missing)}")
    legs = [leg for leg in LEGS if not given.upstream or leg.provider in given.upstream]
    outcomes = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            runs = stretches(given.turns, legs)
            outcomes.append(soak(name, runs, Path(folder), codex_name=given.codex_name, bodies=given.bodies))
    lines = [*table(outcomes), "", *(line for outcome in outcomes for line in report(outcome))]
    print("\n".join(lines))
    return 1 if any(outcome.problems for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())

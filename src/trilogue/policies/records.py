"""The records of one response: which policy decided what, why, and how long it took. They hold no content."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from trilogue.policies.checks import PolicyProblem
from trilogue.policies.policy import Policy
from trilogue.policies.verdicts import PASS, PolicyVerdict, Record, StopWith, readable

MOST_RECORDS = 1000
"""records that are kept of one response"""


class Site(Struct, frozen=True):
    """Where a hook is called. `block` is the number of the block in the upstream's response."""

    stage: str
    block: int | None = None
    kind: str = ""


def problem_words(policy: Policy) -> str:
    """Return the words that end a response because a policy failed."""
    return f"The response was stopped because the policy {policy.name} could not decide."


class Records:
    """The list of records, with the clock that they are timed by."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.items: list[Record] = []

    def add(self, policy: Policy, verdict: str, reason: str, site: Site, *, since: float, matches: int = 0) -> None:
        """Keep one record, up to a limit."""
        if len(self.items) < MOST_RECORDS:
            now = self.clock()
            record = Record(
                policy=policy.name,
                stage=site.stage,
                verdict=verdict,
                reason=readable(reason),
                block=site.block,
                kind=site.kind,
                at=now,
                seconds=now - since,
                matches=matches,
            )
            self.items.append(record)

    def failed(self, policy: Policy, problem: PolicyProblem, site: Site, *, since: float) -> PolicyVerdict:
        """Record a failure of a policy and return the verdict that its `on_error` prescribes."""
        closed = policy.on_error == "closed"
        self.add(policy, "error", f"{problem.what}; {'stopped' if closed else 'passed'}", site, since=since)
        return StopWith(problem_words(policy)) if closed else PASS

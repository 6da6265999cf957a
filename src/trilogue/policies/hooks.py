"""Calls the hooks of policies, turns what they return into a verdict that counts, and records it.

The functions here are generators: they yield `Pending` where a policy waits for something and take a `DriverReply`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from trilogue.model import Audio, Block, Ledger, Native, Opaque, Reasoning, Refusal, Request, Text, Usage
from trilogue.model.names import name_of
from trilogue.policies.calls import is_client_call, may_be_call, strings_in
from trilogue.policies.checks import PolicyProblem, check, guarded
from trilogue.policies.flow import PolicyScan, ScanChain, close_coroutine
from trilogue.policies.policy import Context, Interest, Outcome, Policy
from trilogue.policies.records import Records, Site, problem_words
from trilogue.policies.scan import NEVER, Scan
from trilogue.policies.verdicts import (
    VERDICT_NAMES,
    Answer,
    Ask,
    Pass,
    Pending,
    PolicyVerdict,
    Replace,
    Rewrite,
    StopWith,
)

MOST_ROUNDS = 8
"""questions that a hook may ask one after the other"""
LATE = PolicyProblem("did not decide in time")

Result = TypeVar("Result")


class DriverReply(Struct, frozen=True):
    """What the driver says to a `Pending`: a value, or what went wrong."""

    value: object = None
    problem: PolicyProblem | None = None


Steps = Generator[Pending, DriverReply, Result]


class Judged(Struct, frozen=True):
    """What takes the place of a block: blocks, or the end of the response."""

    blocks: tuple[Block, ...]
    stop: StopWith | None = None


def interest_of(policy: Policy, block: Block) -> Interest:
    """Return how a policy wants to see a block, or None if it does not."""
    if isinstance(block, Text | Refusal):
        return policy.text
    if isinstance(block, Reasoning):
        return policy.reasoning
    if is_client_call(block):
        return "whole" if policy.calls else None
    # A block of an unknown type may be a call.
    wanted = policy.others or (policy.calls and may_be_call(block))
    return "whole" if wanted else None


def _sees_whole_blocks(policy: Policy) -> bool:
    return policy.calls or policy.others or "whole" in (policy.text, policy.reasoning)


def sees_responses(policy: Policy) -> bool:
    """Return whether a policy looks at responses, or wants to know how they end."""
    looks = policy.text or policy.reasoning or policy.calls or policy.others
    return bool(looks) or type(policy).on_end is not Policy.on_end


def _nothing() -> None:
    """Return no value: the reasoning goes on without one."""


class _AlwaysStops(Policy):
    """A stand-in for a policy that failed before it could look at a block: it stops at the first character."""

    def __init__(self, failed: Policy) -> None:
        super().__init__()
        self.name = failed.name
        self._words = problem_words(failed)

    def on_match(self, match: re.Match[str], context: Context) -> object:
        return StopWith(self._words)


EVERYTHING = Scan(pattern=re.compile(r"(?s:.)"), reach=1, partial=re.compile(NEVER))


class Hooks:
    """The policies of one response in their order, with what they share."""

    def __init__(
        self, policies: tuple[Policy, ...], context: Context, ledger: Ledger, clock: Callable[[], float]
    ) -> None:
        self.policies = policies
        self.context = context
        self.ledger = ledger
        self.records = Records(clock)
        self.spent: list[Usage] = []
        """the usage of every answer that cost something"""
        self.make_unsigned: Callable[[], Opaque | None] = _nothing
        """returns what takes the place of the signature of reasoning that was changed"""
        self.refusals = True
        """whether the client can tell refusals from text"""
        self._probed: list[tuple[Policy, Scan]] | None = None
        self.call_ids: set[str] = set()
        """the ids of the calls that have gone on"""
        # Only hooks that see complete blocks can look at the blocks before them.
        self.collects = any([_sees_whole_blocks(policy) for policy in policies])

    def channel(self, block: Block) -> type[Block] | None:
        """Return the kind of text that a client shows a block with; None if it has no text of its own."""
        if isinstance(block, Refusal):
            return Refusal if self.refusals else Text
        return Text if isinstance(block, Text) else Reasoning if isinstance(block, Reasoning) else None

    def judge_request(self, request: Request) -> Steps[Request | StopWith]:
        """Return the request as it may go out, or the words to respond with instead."""
        self.context.request = request
        for policy in self.policies:
            if type(policy).on_request is Policy.on_request:
                continue
            call = partial(policy.on_request, request, self.context)
            verdict = yield from self._verdict(policy, Site("request"), call)
            if isinstance(verdict, StopWith):
                return verdict
            if isinstance(verdict, Rewrite) and isinstance(verdict.to, Request):
                self.context.request = request = verdict.to
        return request

    def end(self, outcome: Outcome) -> Steps[None]:
        """Call `on_end` of every policy that has one. A failure is recorded and changes nothing."""
        for policy in self.policies:
            if type(policy).on_end is Policy.on_end:
                continue
            started = self.records.clock()
            result = yield from self._asked(policy, partial(policy.on_end, outcome, self.context))
            if isinstance(result, PolicyProblem):
                self.records.add(policy, "error", result.what, Site("end"), since=started)

    def one_policy(self, policy: Policy, block: Block, number: int) -> Steps[Judged]:
        """Return what goes on in place of a complete block after one policy."""
        if isinstance(block, Audio) and block.transcript and policy.text is not None:
            judged = yield from self._spoken(policy, block, block.transcript, number)
            return judged
        if isinstance(block, Native) and not block.harmless and policy.text == "flow":
            judged = self._unknown(policy, block)
            if judged.blocks != (block,):
                return judged
        interest = interest_of(policy, block)
        if interest is None:
            return Judged((block,))
        if interest == "flow":
            return self._scanned(policy, block, number)
        call = partial(policy.on_block, block, self.context)
        verdict = yield from self._verdict(policy, Site("block", number, name_of(block)), call, block)
        return self._applied(verdict, block)

    def _spoken(self, policy: Policy, block: Audio, transcript: str, number: int) -> Steps[Judged]:
        """Judge what an audio clip says. If that is changed, its words go on as text: the clip would still say them."""
        said = Text(text=transcript, path=block.path)
        judged = yield from self.one_policy(policy, said, number)
        return Judged((block,)) if judged.blocks == (said,) else judged

    def _unknown(self, policy: Policy, block: Native) -> Judged:
        """Drop a block of an unknown type in which a policy finds what it looks for."""
        for probed, scan in self._probes():
            if probed is policy:
                for _, text in strings_in(block.data):
                    found = self._acts(policy, scan, text)
                    if found:
                        return Judged((), found if isinstance(found, StopWith) else None)
        return Judged((block,))

    def _applied(self, verdict: PolicyVerdict, block: Block) -> Judged:
        if isinstance(verdict, StopWith):
            return Judged((), verdict)
        if isinstance(verdict, Pass):
            return Judged((block,))
        if isinstance(verdict, Rewrite) and isinstance(verdict.to, Block):
            return Judged((self.settled(block, verdict.to),))
        blocks = tuple(verdict.blocks) if isinstance(verdict, Replace) else ()
        if isinstance(block, Reasoning) and block.opaque is not None and block not in blocks:
            self.ledger.add("policy.reasoning", block.path)
        return Judged(tuple([self.settled(block, item) for item in blocks]))

    def settled(self, old: Block, new: Block) -> Block:
        """Return a changed block without what was only true of the old one, and declare what is lost."""
        if new is old:
            return new
        if isinstance(old, Reasoning) and isinstance(new, Reasoning):
            same = (old.summary, old.raw) == (new.summary, new.raw)
            if not same and new.opaque is not None and new.opaque.needs_text:
                self.ledger.add("policy.reasoning", old.path)
                return replace(new, opaque=self.make_unsigned())
        if isinstance(old, Text) and isinstance(new, Text):
            return self._settled_text(old, new)
        return new

    def _settled_text(self, old: Text, new: Text) -> Text:
        if old.text != new.text:
            # Citations and token probabilities quote the old text.
            citations = tuple([citation for citation in new.citations if citation not in old.citations])
            new = replace(new, citations=citations, logprobs=None)
        if len(new.citations) < len(old.citations) or (old.logprobs and not new.logprobs):
            self.ledger.add("policy.annotations", old.path)
        return new

    def hides(self, texts: Iterable[str]) -> StopWith | bool:
        """Return whether a policy that looks for patterns would change one of these texts, or stop at it."""
        for policy, scan in self._probes():
            for text in texts:
                found = self._acts(policy, scan, text)
                if found:
                    return found
        return False

    def _probes(self) -> list[tuple[Policy, Scan]]:
        if self._probed is None:
            flowing: list[tuple[Policy, Block]] = [
                (policy, Text(text="") if policy.text == "flow" else Reasoning())
                for policy in self.policies
                if "flow" in (policy.text, policy.reasoning)
            ]
            scans = [(policy, guarded(partial(policy.scan, block, self.context))) for policy, block in flowing]
            self._probed = [(policy, scan) for policy, scan in scans if isinstance(scan, Scan)]
        return self._probed

    def _acts(self, policy: Policy, scan: Scan, text: str) -> StopWith | bool:
        acted: list[StopWith | bool] = []

        def act(match: re.Match[str]) -> None:
            verdict = guarded(partial(policy.on_match, match, self.context))
            if isinstance(verdict, StopWith):
                acted.append(verdict)
            elif not isinstance(verdict, Pass) and verdict != match.group():
                acted.append(True)

        scan.replaced(text, act)
        return acted[0] if acted else False

    def scans(self, block: Block, number: int, policies: Sequence[Policy]) -> list[PolicyScan]:
        """Return the scans of these policies over a block. A policy whose `scan` fails ends as `on_error` says."""
        scans = []
        site = Site("flow", number, name_of(block))
        for policy in policies:
            started = self.records.clock()
            scan = guarded(partial(policy.scan, block, self.context))
            if isinstance(scan, Scan):
                scans.append(PolicyScan(policy, scan, self.context, self.records))
            elif scan is not None:
                problem = scan if isinstance(scan, PolicyProblem) else PolicyProblem("returned a scan that is none")
                if isinstance(self.records.failed(policy, problem, site, since=started), StopWith):
                    scans.append(PolicyScan(_AlwaysStops(policy), EVERYTHING, self.context, self.records))
        return scans

    def _scanned(self, policy: Policy, block: Block, number: int) -> Judged:
        """Return a complete block that another policy made, as one that works on flowing text changes it."""
        chain = ScanChain()
        chain.begin(self.scans(block, number, [policy]), Site("flow", number, name_of(block)))
        changed = chain.whole(block)
        chain.end()
        return Judged((), chain.stopped) if chain.stopped else Judged((self.settled(block, changed),))

    def _verdict(
        self, policy: Policy, site: Site, call: Callable[[], object], block: Block | None = None
    ) -> Steps[PolicyVerdict]:
        """Return the verdict of one hook, after everything that it asks for."""
        started = self.records.clock()
        result = yield from self._asked(policy, call)
        problem = result
        if not isinstance(result, PolicyProblem):
            problem = guarded(partial(check, site.stage, result, block, self.call_ids))
        if not isinstance(result, PolicyVerdict) or isinstance(problem, PolicyProblem):
            close_coroutine(result)
            problem = problem if isinstance(problem, PolicyProblem) else PolicyProblem("returned no verdict")
            return self.records.failed(policy, problem, site, since=started)
        self.records.add(policy, VERDICT_NAMES[type(result)], result.reason, site, since=started)
        return result

    def _asked(self, policy: Policy, call: Callable[[], object]) -> Steps[object]:
        """Return what a hook returns in the end: run it, await it, and have its questions answered."""
        if policy.blocking:
            reply = yield Pending(policy=policy.name, timeout=policy.timeout, work=call)
            result = reply.problem or reply.value
        else:
            result = self._timed(policy, call)
        for _ in range(MOST_ROUNDS):
            if isinstance(result, Ask):
                ask = result
                timeout = policy.timeout if ask.timeout is None else ask.timeout
                reply = yield Pending(policy=policy.name, timeout=timeout, question=ask.question)
                result = reply.problem or guarded(partial(ask.read, reply.value))
            elif isinstance(result, Awaitable):
                reply = yield Pending(policy=policy.name, timeout=policy.timeout, awaitable=result)
                result = reply.problem or reply.value
            else:
                return result
        return PolicyProblem("asked too many questions")

    def _timed(self, policy: Policy, call: Callable[[], object]) -> object:
        """Return what a plain hook returns. It cannot be interrupted, but a verdict that comes late does not count."""
        started = self.records.clock()
        result = guarded(call)
        if self.records.clock() - started <= policy.timeout:
            return result
        close_coroutine(result)
        return LATE


def unwrapped(hooks: Hooks, value: object) -> object:
    """Return the value of an answer, and note what it cost."""
    if not isinstance(value, Answer):
        return value
    if value.usage is not None:
        hooks.spent.append(value.usage)
    return value.value

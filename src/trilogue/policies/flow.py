"""Text that flows through the scans of several policies, in order, while it arrives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from trilogue.model import Block, Citation, Reasoning, Refusal, Text
from trilogue.policies.checks import MOST_TEXT, PolicyProblem, guarded, text_problem
from trilogue.policies.folding import BORDER, SETTLED
from trilogue.policies.policy import Context, Policy
from trilogue.policies.records import Records, Site
from trilogue.policies.scan import JoinFilter, Scan, ScanFilter
from trilogue.policies.verdicts import PASS, Pass, StopWith


class PolicyScan:
    """The scan of one policy over the text of all blocks, with `BORDER` where one ends.

    Each block is searched by itself, and then what the blocks make together: a client may show them without a break.
    """

    def __init__(self, policy: Policy, scan: Scan, context: Context, records: Records) -> None:
        self.policy = policy
        self.scan = scan
        self._context = context
        self._records = records
        self._site = Site("flow")
        self._since = 0.0
        self._room = MOST_TEXT
        self._broken = False
        self._filter = ScanFilter(scan, self._judge)
        self._join: JoinFilter | None = None
        """takes what the filter lets go on, as long as the end of an earlier block may be the beginning of a match"""
        self.changed = False
        """whether the text has been changed since the last record"""
        self.stopped: StopWith | None = None
        """the verdict that ends the response, if there is one"""

    def begin(self, site: Site) -> None:
        """Begin a block."""
        self._site, self._since = site, self._records.clock()
        self._room, self._broken = MOST_TEXT, False

    def feed(self, text: str, *, final: bool = False) -> str:
        """Return the text that can go on. `final`: the response has no more text."""
        if BORDER in text:
            return self._feed_blocks(text, final)
        out = self._filter.feed(text, final=final)
        if self._join is None and not self._filter.matches:
            return out
        if self._join is not None:
            out = self._join.feed(out, final=final or self._filter.stopped is not None)
        return self._settled(out)

    def end(self) -> None:
        """Record the verdict and the number of matches since the last record, if there were any."""
        matches = self._filter.matches + (self._join.matches if self._join else 0)
        if matches and not self._broken:
            verdict = "stop" if self.stopped else "rewrite" if self.changed else "pass"
            reason = self.stopped.reason if self.stopped else ""
            self._records.add(self.policy, verdict, reason, self._site, since=self._since, matches=matches)
        self.changed = False
        for one in (self._filter, self._join):
            if one is not None:
                one.matches, one.changed = 0, False

    def _feed_blocks(self, text: str, final: bool) -> str:
        first, *others = text.split(BORDER)
        out = [self.feed(first)]
        for block in others:
            if self.stopped:
                break
            out += [self._border(), self.feed(block)]
        return "".join([*out, self.feed("", final=True)]) if final else "".join(out)

    def _border(self) -> str:
        """End a block. What may be the beginning of a match is held until later blocks have decided."""
        before = self._filter.before
        tail = self._filter.feed("", final=True)
        if self._join is None and not tail and not self._filter.stopped:
            return BORDER
        self._join = self._join or JoinFilter(self.scan, self._judge, before)
        if self._filter.stopped:
            return self._settled(self._join.feed(tail, final=True))
        return self._settled(self._join.feed(tail + BORDER))

    def _settled(self, out: str) -> str:
        """Return a text that goes on without marks, and note whether that was the last one."""
        join = self._join
        if join is not None:
            self.stopped = self.stopped or join.stopped
            self.changed = self.changed or join.changed
            if not join.held:
                self._filter.matches += join.matches
                self._join = None
        self.changed = self.changed or self._filter.changed
        self.stopped = self.stopped or self._filter.stopped
        return out.replace(SETTLED, "") if SETTLED in out else out

    def _judge(self, match: re.Match[str]) -> object:
        if self._broken:
            return PASS
        result = guarded(partial(self.policy.on_match, match, self._context))
        problem = self._problem(result)
        if problem is None:
            return result
        self._broken = True
        return self._records.failed(self.policy, problem, self._site, since=self._since)

    def _problem(self, result: object) -> PolicyProblem | None:
        """Return what is wrong with the verdict about a match, or None."""
        if isinstance(result, PolicyProblem):
            return result
        if isinstance(result, Pass):
            return None
        problem = text_problem([result.words if isinstance(result, StopWith) else result])
        if problem:
            close_coroutine(result)
            return PolicyProblem(problem)
        if isinstance(result, str):
            self._room -= len(result)
        return PolicyProblem(f"added more than {MOST_TEXT} characters") if self._room < 0 else None


def close_coroutine(result: object) -> None:
    """Close a coroutine that will not be awaited, which Python would warn about."""
    close = getattr(result, "close", None)
    if callable(close):
        guarded(close)


class ScanChain:
    """The scans of all policies over the text of a response, the output of each being the input of the next."""

    def __init__(self) -> None:
        self._scans: list[PolicyScan] = []
        self.stopped: StopWith | None = None
        """the verdict that ends the response, if there is one"""
        self.changed = False
        """whether any policy has changed the text so far"""

    @property
    def active(self) -> bool:
        """Whether there is anything to find."""
        return bool(self._scans)

    def begin(self, scans: Sequence[PolicyScan], site: Site) -> str:
        """Begin a block that these scans search. Returns what other scans before them still held."""
        same = [(scan.policy, scan.scan) for scan in scans] == [(scan.policy, scan.scan) for scan in self._scans]
        rest = "" if same else self.feed("", final=True)
        if not same and self.stopped is None:
            self._scans = list(scans)
        for scan in self._scans:
            scan.begin(site)
        return rest

    def feed(self, text: str, *, final: bool = False) -> str:
        """Return the text that can go on. `final`: the response has no more text."""
        for scan in self._scans:
            text = scan.feed(text, final=final)
            self.changed = self.changed or scan.changed
            if scan.stopped is not None:
                # What came before the match still goes through the policies behind, and nothing follows it.
                final = True
                self.stopped = self.stopped or scan.stopped
        return text

    def whole(self, block: Block) -> Block:
        """Return a complete block with its text changed, for a chain that searches nothing else."""
        if isinstance(block, Refusal | Text):
            return self.with_texts(block, [self.feed(block.text, final=True)])
        if isinstance(block, Reasoning):
            return self.with_texts(block, [self.feed(part, final=True) for part in (*block.summary, *block.raw)])
        return block

    def with_texts(self, block: Block, texts: list[str]) -> Block:
        """Return a block with other texts, and without citations in which something would be found."""
        if isinstance(block, Refusal):
            return replace(block, text=texts[0])
        if isinstance(block, Text):
            citations = tuple([citation for citation in block.citations if not self.finds(citation)])
            return replace(block, text=texts[0], citations=citations)
        if isinstance(block, Reasoning):
            parts = len(block.summary)
            return replace(block, summary=tuple(texts[:parts]), raw=tuple(texts[parts:]))
        return block

    def finds(self, citation: Citation) -> bool:
        """Return whether any policy would find something in the text of a citation."""
        return any([self.hides(text) for text in (citation.cited_text, citation.title, citation.url) if text])

    def hides(self, text: str) -> bool:
        """Return whether any policy would find something in a text."""
        return any([scan.scan.finds(text) for scan in self._scans])

    def end(self) -> None:
        """Record what the scan of each policy has found since the last record."""
        for scan in self._scans:
            scan.end()


def texts_of(block: Block) -> list[str]:
    """Return the texts of a block that scans search, one by one."""
    if isinstance(block, Reasoning):
        return [*block.summary, *block.raw]
    return [block.text] if isinstance(block, Text | Refusal) else []

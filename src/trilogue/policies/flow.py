"""Text that flows through the scans of several policies, in order, while it arrives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from trilogue.model import Block, Citation, Reasoning, Refusal, Text
from trilogue.policies.checks import MOST_TEXT, Trouble, guarded, text_problem
from trilogue.policies.policy import Context, Policy
from trilogue.policies.records import Records, Site
from trilogue.policies.scan import Scan, ScanFilter
from trilogue.policies.verdicts import PASS, Pass, StopWith


class PolicyScan:
    """The scan of one policy over one block."""

    def __init__(self, policy: Policy, scan: Scan, context: Context, records: Records, site: Site) -> None:
        self.policy = policy
        self.scan = scan
        self._context = context
        self._records = records
        self._site = site
        self._since = records.clock()
        self._room = MOST_TEXT
        self._broken = False
        self._filter = ScanFilter(scan, self._judge)
        self._matches = 0
        self.changed = False
        """whether the text has been changed so far"""
        self.stopped: StopWith | None = None
        """the verdict that ends the response, if there is one"""

    def feed(self, text: str, *, final: bool) -> str:
        """Return the text that can go on. After a final text, the next one begins anew."""
        out = self._filter.feed(text, final=final)
        self.stopped = self._filter.stopped
        self.changed = self.changed or self._filter.changed
        if final and not self.stopped:
            self._matches += self._filter.matches
            self._filter = ScanFilter(self.scan, self._judge)
        return out

    def end(self) -> None:
        """Record the verdict and the number of matches, if there were any."""
        matches = self._matches + self._filter.matches
        if not matches or self._broken:
            return
        stopped = self._filter.stopped
        verdict = "stop" if stopped else "rewrite" if self.changed else "pass"
        reason = stopped.reason if stopped else ""
        self._records.add(self.policy, verdict, reason, self._site, since=self._since, matches=matches)

    def _judge(self, match: re.Match[str]) -> object:
        if self._broken:
            return PASS
        result = guarded(partial(self.policy.on_match, match, self._context))
        trouble = self._trouble(result)
        if trouble is None:
            return result
        self._broken = True
        return self._records.failed(self.policy, trouble, self._site, since=self._since)

    def _trouble(self, result: object) -> Trouble | None:
        """Return what is wrong with the verdict about a match, or None."""
        if isinstance(result, Trouble):
            return result
        if isinstance(result, Pass):
            return None
        problem = text_problem([result.words if isinstance(result, StopWith) else result])
        if problem:
            close_coroutine(result)
            return Trouble(problem)
        if isinstance(result, str):
            self._room -= len(result)
        return Trouble(f"added more than {MOST_TEXT} characters") if self._room < 0 else None


def close_coroutine(result: object) -> None:
    """Close a coroutine that will not be awaited, which Python would warn about."""
    close = getattr(result, "close", None)
    if callable(close):
        guarded(close)


class ScanChain:
    """The scans of all policies over one block, the output of each being the input of the next."""

    def __init__(self, scans: Sequence[PolicyScan]) -> None:
        self._scans = scans
        self.stopped: StopWith | None = None
        """the verdict that ends the response, if there is one"""
        self.changed = False
        """whether any policy has changed the text so far"""

    @property
    def active(self) -> bool:
        """Whether there is anything to find."""
        return bool(self._scans)

    def feed(self, text: str, *, final: bool = False) -> str:
        """Return the text that can go on. `final`: no more text follows, or it belongs to another part."""
        for scan in self._scans:
            text = scan.feed(text, final=final)
            self.changed = self.changed or scan.changed
            if scan.stopped is not None:
                # What came before the match still goes through the policies behind, and nothing follows it.
                final = True
                self.stopped = self.stopped or scan.stopped
        return text

    def whole(self, block: Block) -> Block:
        """Return a complete block with its text changed."""
        if isinstance(block, Refusal):
            return replace(block, text=self.feed(block.text, final=True))
        if isinstance(block, Text):
            citations = tuple([citation for citation in block.citations if not self.finds(citation)])
            return replace(block, text=self.feed(block.text, final=True), citations=citations)
        if isinstance(block, Reasoning):
            summary = tuple([self.feed(part, final=True) for part in block.summary])
            return replace(block, summary=summary, raw=tuple([self.feed(part, final=True) for part in block.raw]))
        return block

    def finds(self, citation: Citation) -> bool:
        """Return whether any policy would find something in the text of a citation."""
        texts = [text for text in (citation.cited_text, citation.title, citation.url) if text]
        return any([scan.scan.pattern.search(text) for scan in self._scans for text in texts])

    def end(self) -> None:
        """Record what the scan of each policy found in the block."""
        for scan in self._scans:
            scan.end()

"""Reasoning that an account has refused, so that it is not sent there again.

Clients send their whole history with every request: without this, one block that an upstream cannot verify would cost
every later request an attempt, and with it the reasoning that the upstream does accept.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Set
from typing import NamedTuple

from trilogue.base.json_text import dump
from trilogue.errors import SealError
from trilogue.model import Failure, Protocol
from trilogue.translate.reasoning.kept import KeptReasoning, Recall
from trilogue.translate.reasoning.removal import reasoning_values, strip_reasoning
from trilogue.translate.reasoning.seal import Sealer

_START = 48
"""Characters of a value that are kept: enough to tell it from all others."""
_MAX_VALUES = 1_024
"""Values per account; the oldest are dropped first."""
_END = 6
"""The fewest characters of the end of a value that an error shows."""


_THINKING = b'"thinking"'
"""what is in every request with reasoning of Messages, where alone unsigned reasoning is refused"""


class TranslatedReasoning(NamedTuple):
    """A refused request in the client's protocol and as it was sent, and the kept reasoning that was put back."""

    body: bytes
    client: Protocol
    sent: bytes
    protocol: Protocol
    recall: Recall
    sealer: Sealer


class RefusedReasoning:
    """The values that each account has refused, by how they begin."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], OrderedDict[str, None]] = {}
        """by provider and account; empty in most gateways"""

    def within(self, provider: str, account: str, body: bytes) -> list[str]:
        """Return the values in a request that this account has refused; `UNSIGNED` if it may have any of these."""
        known = self.known.get((provider, account))
        return [start for start in known if body.find(start.encode() or _THINKING) >= 0] if known else []

    def accepted(self, provider: str, account: str, recall: Recall) -> Recall:
        """Return kept reasoning without that of responses of which this account has refused something."""
        known = self.known.get((provider, account))
        if not known:
            return recall
        return {call: kept for call, kept in recall.items() if not any(value in known for value in _starts(kept))}

    def learn_translated(self, account: tuple[str, str], call: TranslatedReasoning, failure: Failure) -> None:
        """Remember what was refused of a request in another protocol.

        The error names places and values of the request that was sent, and those have to be found among the sealed
        values of the client and of what was kept for it.
        """
        values = [value for value in reasoning_values(call.body, protocol=call.client).values() if value]
        values += [block.opaque.value for kept in call.recall.values() for block in kept.blocks if block.opaque]
        named = frozenset(_named(reasoning_values(call.sent, protocol=call.protocol), failure.message))
        refused = [value for value in values if _opened(value, call.sealer) in named]
        self._add(*account, [value[:_START] for value in refused or values])

    def learn(self, provider: str, account: str, body: bytes, protocol: Protocol, failure: Failure) -> None:
        """Remember what was refused: the value that the error names and all later ones, or all if it names none."""
        if left_out := self.within(provider, account, body):
            # The error counts the blocks of the request that was sent.
            body = dump(strip_reasoning(body, protocol=protocol, only=left_out)[0])
        values = reasoning_values(body, protocol=protocol)
        named = _named(values, failure.message) or list(values.values())
        self._add(provider, account, [value[:_START] for value in named])

    def _add(self, provider: str, account: str, starts: list[str]) -> None:
        known = self.known.setdefault((provider, account), OrderedDict())
        for start in starts:
            known[start] = None
        while len(known) > _MAX_VALUES:
            known.popitem(last=False)

    def without_accounts(self, changed: Set[tuple[str, str]]) -> RefusedReasoning:
        """Return what is still true for a configuration in which these accounts are gone or have another key.

        It is this very object if there are none, so that running requests of the old configuration still add to it.
        """
        if not changed:
            return self
        kept = RefusedReasoning()
        kept.known = {account: values for account, values in self.known.items() if account not in changed}
        return kept


def _starts(kept: KeptReasoning) -> list[str]:
    return [block.opaque.value[:_START] for block in kept.blocks if block.opaque is not None]


def _named(values: Mapping[str, str], message: str) -> list[str]:
    """Return the value that an error names, by its place or by its last characters, as OpenAI shows them, and all later
    ones.

    An upstream names the first value that it cannot verify. What came before is its own, and what came after is from
    where this one is from: a conversation that moves to another account would be refused once for each value otherwise.
    """
    ordered = list(values.items())
    for position, (place, value) in enumerate(ordered):
        if _has_place(place, message) or (value and value[-_END:] in message):
            return [later for _, later in ordered[position:]]
    return []


def _has_place(place: str, message: str) -> bool:
    """Return whether a message has a place, and not one that it is only the beginning of."""
    return re.search(rf"(?<![\w.]){re.escape(place)}(?!\w|\.\d)", message) is not None


def _opened(value: str, sealer: Sealer) -> str:
    """Return the value that was sealed; the value itself if it was not."""
    try:
        return sealer.open(value).opaque.value
    except SealError:
        return value

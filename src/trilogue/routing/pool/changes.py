"""What happens to accounts, as data: the pool reports it, a store keeps it and passes it to other processes.

Every change is absolute, so that it can be applied twice, late, or over a newer copy of itself without harm. Tags and
field names are stored, the tags twice (`KINDS`): a class or field that gets another name keeps its stored one.
"""

from __future__ import annotations

from typing import get_args

from msgspec import Struct, field

from trilogue.translate.learning.remedies import Remedy


class Cooled(Struct, frozen=True, tag="Cooled"):
    """A cooldown until a time, or its end (0). `account` empty: of the provider. `model` empty: for all models.

    `failing`: it is only used last. `failures`: how many in a row.
    """

    provider: str
    account: str
    model: str
    until: float
    failing: bool = field(name="soft")
    why: str
    failures: int


class Switched(Struct, frozen=True, tag="Switched"):
    """An account that was disabled (`by` is "upstream" or "hand") or enabled (`by` is empty)."""

    provider: str
    account: str
    by: str
    probe_at: float = 0.0
    probes: int = 0
    why: str = ""
    credential: str = ""
    """which key an upstream refused: that says nothing about another key"""


class Erred(Struct, frozen=True, tag="Erred"):
    """The last failure of an account. `why`: one of our own names."""

    provider: str
    account: str
    why: str
    status: int
    at: float
    text: str = ""
    """the reason in our own words, such as that of a connection that could not be opened, or in the upstream's words,
    without secrets, if they are about the account"""


class Adjusted(Struct, frozen=True, tag="Adjusted"):
    """A balance that was set by hand. `adjust`: what is added to the configured balance less usage."""

    provider: str
    account: str
    adjust: float


class Bound(Struct, frozen=True, tag="Bound"):
    """A conversation that belongs to an account."""

    provider: str
    key: str
    account: str
    at: float


class Learned(Struct, frozen=True, tag="Learned"):
    """Everything that a model of a provider has refused so far, and what is sent instead."""

    provider: str
    model: str
    remedies: tuple[Remedy, ...]


class AccountTally(Struct, frozen=True, tag="Tally"):
    """What one process has counted for an account since it started, and its requests in flight."""

    provider: str
    account: str
    ok: int = 0
    failed: int = 0
    spent: float = 0.0
    in_flight: int = 0


Change = Cooled | Switched | Erred | Adjusted | Bound | Learned | AccountTally
KINDS: dict[type[Change], str] = {kind: str(kind.__struct_config__.tag) for kind in get_args(Change)}
"""the tag of each change, which is also the kind of its records"""

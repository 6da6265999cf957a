"""What happens to accounts, as data: the pool writes it down, a store keeps it and hands it to other processes.

Every change is absolute, so that it may be applied twice, late, or over a newer copy of itself without harm.
"""

from __future__ import annotations

from msgspec import Struct

from trilogue.translate.learning.remedies import Remedy


class Cooled(Struct, frozen=True, tag=True):
    """Something rests until a time (0 = no longer). `account` empty: the provider. `model` empty: all models.

    `soft`: it is only put behind the others. `failures`: how many in a row.
    """

    provider: str
    account: str
    model: str
    until: float
    soft: bool
    why: str
    failures: int


class Switched(Struct, frozen=True, tag=True):
    """An account is out of use (`by` is "upstream" or "hand") or back (`by` is empty)."""

    provider: str
    account: str
    by: str
    probe_at: float = 0.0
    probes: int = 0
    why: str = ""
    credential: str = ""
    """which key an upstream refused: a mark on one says nothing about another"""


class Erred(Struct, frozen=True, tag=True):
    """The last failure of an account, in names of our own."""

    provider: str
    account: str
    why: str
    status: int
    at: float


class Adjusted(Struct, frozen=True, tag=True):
    """A balance was set by hand: this much is added to what the configuration says and usage leaves."""

    provider: str
    account: str
    adjust: float


class Bound(Struct, frozen=True, tag=True):
    """A conversation belongs to an account."""

    provider: str
    key: str
    account: str
    at: float


class Learned(Struct, frozen=True, tag=True):
    """What a provider has refused in requests to a model, and what is sent instead. Always all of it."""

    provider: str
    model: str
    remedies: tuple[Remedy, ...]


class Tally(Struct, frozen=True, tag=True):
    """What one process has counted for an account since it began, and what it has under way."""

    provider: str
    account: str
    ok: int = 0
    failed: int = 0
    spent: float = 0.0
    in_flight: int = 0


Change = Cooled | Switched | Erred | Adjusted | Bound | Learned | Tally

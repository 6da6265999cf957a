"""What a session costs at the simulated caches, and what it would cost if every token were paid once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.agents.relay import Exchange
from tests.agents.upstream import Asked, cache_of
from tests.caches.units import tokens, units_of
from tests.caches.vendors import READ, Cache, Usage
from tests.multiturn.script import Json
from trilogue.model import Protocol

BILLING = "x-anthropic-billing-header"
WRITE = {"anthropic": 1.25}
IMAGES = ('"image"', '"input_image"')
STEP = 128
LEAST = 1024


@dataclass
class Bill:
    """Input of one leg. Costs are in tokens at full price.

    The ideal is about the client's own requests: what they cost at the same vendor without a gateway, where the client
    speaks its protocol; else what they cost if no token that was sent before is paid again.
    """

    requests: int = 0
    total: int = 0
    read: int = 0
    cost: float = 0.0
    ideal_total: int = 0
    ideal_read: int = 0
    ideal_cost: float = 0.0
    steps: list[str] = field(default_factory=list)
    """each request in words, for whoever looks for what was lost"""

    @property
    def paid(self) -> float:
        """The cost of a token of input, where 1 is the full price."""
        return self.cost / self.total if self.total else 0.0

    @property
    def ideal(self) -> float:
        """The same if nothing is paid twice."""
        return self.ideal_cost / self.ideal_total if self.ideal_total else 0.0

    @property
    def over(self) -> float:
        """How much more is paid than in the ideal case, as a share of it."""
        return self.paid / self.ideal - 1 if self.ideal else 0.0


@dataclass
class Warm:
    """The ideal cache of one model: it has all texts that were sent since it was cold."""

    vendor: str
    texts: list[str] = field(default_factory=list)

    def ask(self, body: Json, protocol: Protocol, now: float) -> Usage:
        """Return the usage of a request, and keep it."""
        text = prompt_text(body, protocol, images=self.vendor == "anthropic")
        found = max((_common(text, one) for one in self.texts), default=0) // 4 // STEP * STEP
        self.texts = [*self.texts[-20:], text]
        read = found if found >= LEAST else 0
        rest = tokens(text) - read
        return Usage(read, 0, rest, read * READ + rest * WRITE.get(self.vendor, 1.0))


def _common(one: str, other: str) -> int:
    """Return the length of the common beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def prompt_text(body: Json, protocol: Protocol, *, images: bool = False) -> str:
    """Return the prompt as a cache reads it, without marks and without the line that changes in each session.

    `images`: the cache of messages ends when the first picture comes and when the last one goes, as at Anthropic.
    """
    units = [unit for unit in units_of(body, protocol) if BILLING not in unit.text]
    first = next((at for at, unit in enumerate(units) if unit.place not in _HEAD), len(units))
    state = f"pictures: {any(mark in unit.form for unit in units for mark in IMAGES)}\n" if images else ""
    return "".join([*(unit.text for unit in units[:first]), state, *(unit.text for unit in units[first:])])


_HEAD = ("tools", "system", "developer")


@dataclass
class Ideal:
    """A gateway that leaves an account only when it fails, with a cache per account in which everything is found."""

    client: Protocol
    accounts: dict[str, str] = field(default_factory=dict)
    """the account that each model is asked at"""
    failed: set[tuple[str, str]] = field(default_factory=set)
    """accounts that have failed since the model was last asked"""
    caches: dict[tuple[str, str], Cache] = field(default_factory=dict)

    def ask(self, exchange: Exchange, answered: Asked) -> Usage:
        """Return the usage of a request of the client. `answered`: the account that responded in fact."""
        leg = answered.leg
        account = self.accounts.setdefault(leg.name, answered.account)
        if (leg.name, account) in self.failed:
            account = self.accounts[leg.name] = answered.account
        self.failed = {one for one in self.failed if one[0] != leg.name}
        key = leg.name, account
        if key not in self.caches:
            own = leg.protocol is self.client
            self.caches[key] = cache_of(leg) if own else Warm(leg.vendor)
        return self.caches[key].ask(exchange.request.json, self.client, exchange.request.time)


def bills(exchanges: Sequence[Exchange], asked: Sequence[Asked], client: Protocol) -> dict[str, Bill]:
    """Return the bill of each leg. Requests that had no answer cost nothing."""
    found: dict[str, Bill] = {}
    ideal = Ideal(client)
    for exchange in exchanges:
        during = [one for one in asked if exchange.request.time <= one.time <= exchange.ended]
        for one in during:
            # A stream that was cut is paid for as well, and its account has failed.
            if one.usage is not None:
                bill = found.setdefault(one.leg.name, Bill())
                best = ideal.ask(exchange, one)
                _add(bill, one.usage, best)
                got = f"{one.account} {one.usage.read} of {one.usage.total}"
                bill.steps.append(f"step {one.step}: {got}; ideal {best.read} of {best.total} {one.fault}")
            if one.fault:
                ideal.failed.add((one.leg.name, one.account))
    return found


def _add(bill: Bill, usage: Usage, best: Usage) -> None:
    bill.requests += 1
    bill.total += usage.total
    bill.read += usage.read
    bill.cost += usage.cost
    bill.ideal_total += best.total
    bill.ideal_read += best.read
    bill.ideal_cost += best.cost

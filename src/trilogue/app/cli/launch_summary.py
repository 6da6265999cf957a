"""What the gateway of a launched client has done, in one line: requests, tokens, cost, errors and losses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from trilogue.gateway.observer import Observer
from trilogue.gateway.record import RequestRecord
from trilogue.model import Usage

Price = Callable[[str, str, Usage], int | None]
"""returns what usage of a provider's model costs, in billionths of a dollar; None if that is unknown"""
BILLION = 1_000_000_000
_NO_ERRORS = frozenset({"client_gone", "not_found", "method_not_allowed"})
"""what clients cause on purpose: they stop, and they look which paths there are"""
_MOST_NAMED = 4
"""codes of errors and losses that a line names; the others are counted"""


def _unknown(provider: str, model: str, usage: Usage) -> int | None:
    """Return None: the price of a gateway that has not been built yet."""
    return None


class Summary(Observer):
    """Counts requests for models and other endpoints. Lists of models and the like do not count.

    `price`: set it to that of the gateway's gateway.
    """

    def __init__(self) -> None:
        self.price: Price = _unknown
        self.requests = 0
        self.input = self.cached = self.output = 0
        self.cost = 0
        """in billionths of a dollar"""
        self.unpriced = 0
        """requests whose cost is not known"""
        self.errors: Counter[str] = Counter()
        self.losses: Counter[str] = Counter()

    def request_ended(self, record: RequestRecord) -> None:
        """Count a request that is over."""
        if record.error is not None and record.error not in _NO_ERRORS:
            self.errors[record.error] += 1
        if record.decision is None:
            return
        self.requests += 1
        self.losses.update(record.loss_codes)
        usage = record.usage
        if usage is None:
            return
        self.input += usage.input
        self.cached += usage.cache_read or 0
        self.output += usage.output
        cost = self.price(record.provider, record.upstream_model, usage)
        self.unpriced += cost is None
        self.cost += cost or 0

    def __str__(self) -> str:
        if not self.requests and not self.errors:
            return "no requests"
        parts = [_counted(self.requests, "request"), self._tokens()]
        if self.cost or self.unpriced:
            parts.append(self._cost())
        parts.append(_counted(self.errors.total(), "error") + _named(self.errors))
        parts.append(f"losses: {', '.join(_codes(self.losses))}" if self.losses else "no losses")
        return ", ".join(parts)

    def _tokens(self) -> str:
        cached = f" ({self.cached:,} cached)" if self.cached else ""
        return f"{self.input:,} tokens in{cached}, {self.output:,} out"

    def _cost(self) -> str:
        if not self.cost:
            return "cost unknown"
        unknown = f" without {_counted(self.unpriced, 'request')} of unknown price" if self.unpriced else ""
        return f"{self.cost / BILLION:.4f} USD{unknown}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _named(codes: Counter[str]) -> str:
    return f" ({', '.join(_codes(codes))})" if codes else ""


def _codes(codes: Counter[str]) -> list[str]:
    """Return the most frequent codes with their numbers, and how many others there are."""
    named = [f"{code} {count}" for code, count in codes.most_common(_MOST_NAMED)]
    left = len(codes) - len(named)
    return [*named, f"{left} more"] if left > 0 else named

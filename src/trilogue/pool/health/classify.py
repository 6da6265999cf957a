"""Whose fault a failure is and what to do next: one table, checked from top to bottom, the user's rules first.

In: a `Failure` that a codec has read (an HTTP error, or an error inside a stream before any content), or one of our own
`UpstreamError`s. Out: a `Verdict`. It does not know which account it was, nor what happens to it.

What a failure means for the request and for the account that it came from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from trilogue.errors import UpstreamConnect, UpstreamError
from trilogue.model import Failure, FailureKind, Protocol
from trilogue.pool.settings import RetryRule
from trilogue.protocols.failure.convert import failure_of


class Action(StrEnum):
    """What to do with the request."""

    CLIENT = "client"
    """the client must know: no other account would do better"""
    NEXT = "next"
    """try another account; this one stays in use, behind the others if it is to blame"""
    COOL = "cooldown"
    """try another account; this one rests"""
    DISABLE = "disable"
    """try another account; this one is out until a probe or a person says otherwise"""
    STRIP = "strip"
    """try the same account once more, without the reasoning that it cannot read"""


class Scope(StrEnum):
    """Who is to blame, and so rests. With NEXT the account only goes behind the others for a while."""

    ACCOUNT = "account"
    ACCOUNT_MODEL = "account_model"
    PROVIDER = "provider"
    NOBODY = "nobody"


class Verdict(Struct, frozen=True, kw_only=True):
    """The judgement on one failure.

    `delay`: seconds that the upstream or a rule named, None = a growing delay, of at least `least`. `why`: a short name
    for logs and explanations, from a closed list or a rule's position; never text of the upstream. `fault`: of servers
    or the network, so that enough of them in a row are an outage of the provider. `any_model` False: that other models
    are concerned is a guess, so an account with nobody beside it rests for this model only.
    """

    action: Action
    scope: Scope = Scope.NOBODY
    delay: float | None = None
    least: float = 0.0
    why: str = ""
    fault: bool = False
    any_model: bool = True
    blame_proxy: bool = False
    status: int = 0
    """of the failure, for the record"""

    @property
    def is_final(self) -> bool:
        """No further attempt."""
        return self.action is Action.CLIENT


EXHAUSTED_SECONDS = 60.0
"""least rest of an account that is out of money: topping up takes people longer than a growing delay starts with"""
UNSAID_SECONDS = 15.0
"""least rest after a 429 of the Messages API without retry-after, which stands for an exhausted account"""
INSUFFICIENT = "insufficient_tokens"
MODEL_SECONDS = 600.0
"""how long an account that lacks a model is not asked for it"""


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


class FailureRow(Struct, frozen=True, kw_only=True):
    """One kind of failure. What is given must fit: one of the statuses, kinds or codes, and the text.

    Status 0 is an error inside a stream, which has none: it fits wherever the rest of the row does.
    """

    why: str
    action: Action
    scope: Scope = Scope.NOBODY
    statuses: frozenset[int] = frozenset()
    kinds: frozenset[FailureKind] = frozenset()
    codes: frozenset[str] = frozenset()
    text: re.Pattern[str] | None = None
    protocol: Protocol | None = None
    unsaid: bool = False
    """only if the upstream named no time"""
    delay: float | None = None
    least: float = 0.0
    fault: bool = False
    """of servers or the network: enough of them in a row are an outage of the provider"""
    any_model: bool = True
    """False: that it concerns other models too is a guess"""
    blame_proxy: bool = False

    def fits(self, failure: Failure) -> bool:
        if self.statuses and failure.status and failure.status not in self.statuses:
            return False
        if self.protocol not in (None, failure.protocol) or (self.unsaid and failure.retry_after is not None):
            return False
        named = not self.codes or failure.code in self.codes or failure.type in self.codes
        kind = not self.kinds or failure.kind in self.kinds
        return named and kind and (self.text is None or self.text.search(failure.message) is not None)


_MODEL_TEXT = _words(
    r"(access to|sample from|use) (the |this )?model|model .{0,200}(not (found|exist|available)|no access)"
    r"|not have access to .{0,100}model"
)

REJECTED = "reasoning_rejected"
"""why an attempt is made again without reasoning that the account cannot verify"""

LOOP_TEXT = _words(r"passed \d+ gateways and goes in a circle")
"""our own words, from a gateway further on"""

ROWS: tuple[FailureRow, ...] = (
    # Too large for any account.
    FailureRow(
        why="request_too_costly", action=Action.CLIENT, statuses=frozenset({403}), text=_words("estimated cost")
    ),
    # This account has too little for this request; it may have enough for another one, or soon. Behind the others, or
    # every second request would be a retry, and the retry budget would run out with a healthy account beside it.
    FailureRow(
        why=INSUFFICIENT,
        action=Action.NEXT,
        scope=Scope.ACCOUNT,
        statuses=frozenset({403}),
        text=_words("insufficient tokens|upgrade your plan|limit reached"),
    ),
    # Gateways that lead to each other: with another account it would only go round once more.
    FailureRow(why="gateway_loop", action=Action.CLIENT, statuses=frozenset({508}), text=LOOP_TEXT),
    # Reasoning that this upstream cannot verify: signed for another account, or changed on its way.
    FailureRow(
        why=REJECTED,
        action=Action.STRIP,
        statuses=frozenset({400}),
        codes=frozenset({"invalid_encrypted_content", "invalid_reasoning_signature", "thinking_binding_mismatch"}),
    ),
    FailureRow(
        why=REJECTED,
        action=Action.STRIP,
        statuses=frozenset({400, 404, 422}),
        text=_words(
            r"invalid `?(signature|data)`? in `?(redacted_)?thinking|signature.{0,60}(invalid|not valid|verif)"
            r"|thinking.{0,80}(bound to|binding|cannot be modified)|encrypted content.{0,80}(verif|match|decrypt)"
            r"|item with id '?rs_|item '?rs_"
        ),
    ),
    # Reasoning that should be there and is not: another upstream's turn had none. The rest goes too, and with it what
    # made it necessary.
    FailureRow(
        why="reasoning_missing",
        action=Action.STRIP,
        statuses=frozenset({400}),
        text=_words(r"without its required '?reasoning|expected `?thinking`? or `?redacted"),
    ),
    # What the request continues is kept by the account that made it, and we no longer know which one that was.
    FailureRow(
        why="kept_elsewhere",
        action=Action.NEXT,
        statuses=frozenset({400, 404}),
        text=_words(r"(response|conversation) with id .{0,200}not found"),
    ),
    # The account, not the request, whatever the status says.
    FailureRow(
        why="account_closed",
        action=Action.DISABLE,
        scope=Scope.ACCOUNT,
        codes=frozenset(
            {"organization_on_hold", "account_deactivated", "organization_deactivated", "billing_not_active"}
        ),
    ),
    FailureRow(
        why="account_closed",
        action=Action.DISABLE,
        scope=Scope.ACCOUNT,
        statuses=frozenset({400, 401, 403}),
        text=_words(r"(organi[sz]ation|account|workspace) (is|has been) (on hold|disabled|deactivated|suspended)"),
    ),
    FailureRow(
        why="out_of_quota",
        action=Action.COOL,
        scope=Scope.ACCOUNT,
        kinds=frozenset({FailureKind.QUOTA}),
        least=EXHAUSTED_SECONDS,
    ),
    FailureRow(
        why="out_of_quota",
        action=Action.COOL,
        scope=Scope.ACCOUNT,
        statuses=frozenset({400, 402, 403, 429}),
        text=_words(
            r"spend(ing)? limit|credit balance is too low|exceeded your current quota|insufficient (credit|balance)"
        ),
        least=EXHAUSTED_SECONDS,
    ),
    FailureRow(
        why="out_of_money",
        action=Action.COOL,
        scope=Scope.ACCOUNT,
        kinds=frozenset({FailureKind.BILLING}),
        least=EXHAUSTED_SECONDS,
    ),
    FailureRow(
        why="bad_key", action=Action.DISABLE, scope=Scope.ACCOUNT, kinds=frozenset({FailureKind.AUTHENTICATION})
    ),
    FailureRow(
        why="bad_key",
        action=Action.DISABLE,
        scope=Scope.ACCOUNT,
        statuses=frozenset({400, 403}),
        text=_words(r"(invalid|incorrect) api key|api key not valid"),
    ),
    # OpenAI's limits are per model and its text names the model; other models of this account still work.
    FailureRow(
        why="rate_limited",
        action=Action.COOL,
        scope=Scope.ACCOUNT_MODEL,
        kinds=frozenset({FailureKind.RATE_LIMIT}),
        text=_words(r"^rate limit reached for \S+ in organization"),
    ),
    FailureRow(
        why="rate_limited",
        action=Action.COOL,
        scope=Scope.ACCOUNT,
        kinds=frozenset({FailureKind.RATE_LIMIT}),
        protocol=Protocol.MESSAGES,
        unsaid=True,
        least=UNSAID_SECONDS,
        any_model=False,
    ),
    FailureRow(
        why="rate_limited",
        action=Action.COOL,
        scope=Scope.ACCOUNT,
        kinds=frozenset({FailureKind.RATE_LIMIT}),
        any_model=False,
    ),
    # The model is not there for this account; nothing else is wrong with it.
    FailureRow(
        why="model_not_found",
        action=Action.COOL,
        scope=Scope.ACCOUNT_MODEL,
        kinds=frozenset({FailureKind.MODEL_NOT_FOUND}),
        delay=MODEL_SECONDS,
    ),
    FailureRow(
        why="model_not_found",
        action=Action.COOL,
        scope=Scope.ACCOUNT_MODEL,
        statuses=frozenset({403, 404}),
        kinds=frozenset({FailureKind.PERMISSION, FailureKind.NOT_FOUND, FailureKind.INVALID_REQUEST}),
        text=_MODEL_TEXT,
        delay=MODEL_SECONDS,
    ),
    # Where we come from is not welcome: another way out may be.
    FailureRow(
        why="region_refused",
        action=Action.NEXT,
        scope=Scope.ACCOUNT,
        codes=frozenset({"unsupported_country_region_territory"}),
        fault=True,
        blame_proxy=True,
    ),
    # Before the first byte nothing is lost: someone else may be luckier.
    FailureRow(
        why="overloaded",
        action=Action.NEXT,
        scope=Scope.ACCOUNT,
        kinds=frozenset({FailureKind.OVERLOADED, FailureKind.UNAVAILABLE}),
        fault=True,
    ),
    FailureRow(
        why="server_error",
        action=Action.NEXT,
        scope=Scope.ACCOUNT,
        kinds=frozenset({FailureKind.SERVER}),
        fault=True,
    ),
    FailureRow(
        why="timeout", action=Action.NEXT, scope=Scope.ACCOUNT, kinds=frozenset({FailureKind.TIMEOUT}), fault=True
    ),
    FailureRow(
        why="network",
        action=Action.NEXT,
        scope=Scope.ACCOUNT,
        kinds=frozenset({FailureKind.UPSTREAM_CONNECT}),
        fault=True,
    ),
    FailureRow(
        why="broken_answer",
        action=Action.NEXT,
        scope=Scope.ACCOUNT,
        kinds=frozenset({FailureKind.UPSTREAM_PROTOCOL, FailureKind.UPSTREAM_TRUNCATED}),
        fault=True,
    ),
)

OTHERWISE = "client_error"
"""what nobody knows goes to the client and is not masked"""


def classify(error: Failure | UpstreamError, rules: Sequence[RetryRule] = ()) -> Verdict:
    """What a failure before the first byte means."""
    failure = failure_of(error)
    for number, rule in enumerate(rules, 1):
        if rule_fits(rule, failure):
            return _by_rule(rule, number, failure)
    row = next((row for row in ROWS if row.fits(failure)), None)
    if row is None:
        return Verdict(action=Action.CLIENT, why=OTHERWISE, status=failure.status)
    return Verdict(
        action=row.action,
        scope=row.scope,
        delay=row.delay if row.delay is not None else failure.retry_after,
        least=row.least,
        why=row.why,
        fault=row.fault,
        any_model=row.any_model,
        blame_proxy=row.blame_proxy or (isinstance(error, UpstreamConnect) and error.proxy),
        status=failure.status,
    )


def rule_fits(rule: RetryRule, failure: Failure) -> bool:
    """Everything that the rule gives must fit."""
    if rule.status is not None and rule.status != failure.status:
        return False
    if rule.code is not None and rule.code not in (failure.code, failure.type):
        return False
    return rule.text is None or contains(failure.message, rule.text)


def contains(text: str, pattern: str) -> bool:
    """Whether a pattern with `*` is found somewhere in a text. Linear in the text: users' patterns cannot hang us."""
    text, position = text.casefold(), 0
    for part in pattern.casefold().split("*"):
        found = text.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return True


_RULE_ACTIONS = {
    "client": Action.CLIENT,
    "next": Action.NEXT,
    "cooldown": Action.COOL,
    "disable": Action.DISABLE,
}


def _by_rule(rule: RetryRule, number: int, failure: Failure) -> Verdict:
    action = _RULE_ACTIONS[rule.action]
    scopes = {Action.COOL: Scope(rule.scope), Action.DISABLE: Scope.ACCOUNT, Action.NEXT: Scope.ACCOUNT}
    return Verdict(
        action=action,
        scope=scopes.get(action, Scope.NOBODY),
        delay=rule.seconds if rule.seconds is not None else failure.retry_after,
        why=f"rule_{number}",
        status=failure.status,
    )

"""Whose fault a failure is and what to do next: one table, read from top to bottom, the user's rules first.

In: a `Failure` that a codec has read (an HTTP error, or an error inside a stream before any content), or one of our own
`UpstreamError`s. Out: a `Verdict`. It doesn't know which account failed, nor what happens to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from trilogue.errors import UpstreamConnect, UpstreamError, UpstreamFailure, UpstreamTimeout
from trilogue.model import Failure, FailureKind
from trilogue.protocols.failure import failure_of
from trilogue.routing.pool.settings import RetryRule


class Action(StrEnum):
    """What to do with the request, and with the account that failed."""

    CLIENT = "client"
    """return the error to the client: no other account would do better"""
    NEXT = "next"
    """try another account; this one is used last for a while if the scope says so"""
    COOLDOWN = "cooldown"
    """try another account; this one cools down"""
    DISABLE = "disable"
    """try another account; this one is disabled until a probe succeeds or a person enables it"""
    STRIP = "strip"
    """try the same account once more, without the reasoning that it cannot read"""


class Scope(StrEnum):
    """What cools down, is used last or is disabled."""

    ACCOUNT = "account"
    ACCOUNT_MODEL = "account_model"
    PROVIDER = "provider"
    NONE = "none"


class Verdict(Struct, frozen=True, kw_only=True):
    """The decision on one failure.

    `delay`: seconds that the upstream or a rule named; None is a growing delay of at least `min_seconds`.
    `why`: a short name for logs and explanations, from a closed list or the position of a rule; never upstream text.
    `fault`: of servers or the network; enough of them in a row are an outage of the provider.
    `any_model` False: it is a guess that other models are affected, so the only account of a provider cools down for
    this model alone.
    """

    action: Action
    scope: Scope = Scope.NONE
    delay: float | None = None
    min_seconds: float = 0.0
    why: str = ""
    fault: bool = False
    any_model: bool = True
    blame_proxy: bool = False
    status: int = 0
    """HTTP status of the failure, for the record"""
    text: str = ""
    """the reason in our own words; empty if only the upstream's words say it"""
    unreached: bool = False
    """whether there was no connection"""
    words: str = ""
    """the upstream's words, if they are about the account: its key, its money or its limits"""

    @property
    def is_final(self) -> bool:
        """Whether the client gets this failure, without another attempt."""
        return self.action is Action.CLIENT

    def for_client_key(self) -> Verdict:
        """Return the verdict on a failure of a request that was sent with the client's own key.

        Its limits, its money and its validity are the client's: nobody else may be affected, and no other account used.
        """
        if self.fault or self.action is Action.STRIP:
            return self
        return replace(self, action=Action.CLIENT, scope=Scope.NONE, delay=None)


EXHAUSTED_SECONDS = 60.0
"""Shortest cooldown of an account that is out of money: topping up takes longer than growing delays start with."""
NO_RETRY_TIME_SECONDS = 15.0
"""Shortest cooldown after a 429 of the Messages API without retry-after, which means an exhausted account."""
INSUFFICIENT = "insufficient_tokens"
MODEL_SECONDS = 600.0
"""Cooldown of an account for a model that it doesn't have."""


def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


class FailureRow(Struct, frozen=True, kw_only=True):
    """One kind of failure. Everything that is given must match: one of the statuses, kinds or codes, and the text.

    Status 0 is an error inside a stream, which has none: it matches wherever the rest of the row does.
    """

    why: str
    action: Action
    scope: Scope = Scope.NONE
    statuses: frozenset[int] = frozenset()
    kinds: frozenset[FailureKind] = frozenset()
    codes: frozenset[str] = frozenset()
    text: re.Pattern[str] | None = None
    without_usual_time: bool = False
    """only if the upstream named no time although its protocol's rate limits name one"""
    delay: float | None = None
    min_seconds: float = 0.0
    fault: bool = False
    any_model: bool = True
    blame_proxy: bool = False

    def matches(self, failure: Failure) -> bool:
        """Return whether a failure is of this kind."""
        if self.statuses and failure.status and failure.status not in self.statuses:
            return False
        if self.without_usual_time and (failure.retry_after is not None or not _names_retry_times(failure)):
            return False
        named = not self.codes or failure.code in self.codes or failure.type in self.codes
        kind = not self.kinds or failure.kind in self.kinds
        return named and kind and (self.text is None or self.text.search(failure.message) is not None)


def _names_retry_times(failure: Failure) -> bool:
    return failure.protocol is not None and failure.protocol.traits.names_retry_times


_MODEL_TEXT = _pattern(
    r"(access to|sample from|use) (the |this )?model|model .{0,200}(not (found|exist|available)|no access)"
    r"|not have access to .{0,100}model"
)

REJECTED = "reasoning_rejected"
"""Why an attempt is repeated without the reasoning that the account cannot verify."""

NOT_FOUND = "not_found"
"""A 404 that is not about the model: the upstream's address may be wrong."""

NO_CREDENTIAL = "no_credential"
"""There was no key to send."""

FORBIDDEN = "forbidden"
"""A 403 that may be about the request, or about what the key may do."""
MOST_WORDS = 200
"""Characters of the upstream's words about an account."""

LOOP_TEXT = _pattern(r"passed \d+ gateways and goes in a circle")
"""Our own message, from another gateway behind this one."""

ROWS: tuple[FailureRow, ...] = (
    # Some providers price the request before they accept it: it is too large for any account.
    FailureRow(
        why="request_too_costly", action=Action.CLIENT, statuses=frozenset({403}), text=_pattern("estimated cost")
    ),
    # This account has too little left for this request; it may have enough for another one, or soon. It is used last:
    # otherwise every second request would be a retry, and the retry budget would run out despite a healthy account.
    FailureRow(
        why=INSUFFICIENT,
        action=Action.NEXT,
        scope=Scope.ACCOUNT,
        statuses=frozenset({403}),
        text=_pattern("insufficient tokens|upgrade your plan|limit reached"),
    ),
    # Gateways that lead to each other: another account would only send it round the circle once more.
    FailureRow(why="gateway_loop", action=Action.CLIENT, statuses=frozenset({508}), text=LOOP_TEXT),
    # Reasoning that this upstream cannot verify: signed for another account, or changed in between.
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
        text=_pattern(
            r"invalid `?(signature|data)`? in `?(redacted_)?thinking|signature.{0,60}(invalid|not valid|verif)"
            r"|\bsignature: field required"
            r"|thinking.{0,80}(bound to|binding|cannot be modified)|encrypted content.{0,80}(verif|match|decrypt)"
            r"|item with id '?rs_|item '?rs_"
        ),
    ),
    # Reasoning is missing because another upstream wrote that turn. Without the rest of it, none is required.
    FailureRow(
        why="reasoning_missing",
        action=Action.STRIP,
        statuses=frozenset({400}),
        text=_pattern(r"without its required '?reasoning|expected `?thinking`? or `?redacted"),
    ),
    # The response that the request continues is stored by the account that made it, and we no longer know which.
    FailureRow(
        why="kept_elsewhere",
        action=Action.NEXT,
        statuses=frozenset({400, 404}),
        text=_pattern(r"(response|conversation) with id .{0,200}not found"),
    ),
    # The account is the reason and not the request, whatever the status says.
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
        text=_pattern(r"(organi[sz]ation|account|workspace) (is|has been) (on hold|disabled|deactivated|suspended)"),
    ),
    FailureRow(
        why="out_of_quota",
        action=Action.COOLDOWN,
        scope=Scope.ACCOUNT,
        kinds=frozenset({FailureKind.QUOTA}),
        min_seconds=EXHAUSTED_SECONDS,
    ),
    FailureRow(
        why="out_of_quota",
        action=Action.COOLDOWN,
        scope=Scope.ACCOUNT,
        statuses=frozenset({400, 402, 403, 429}),
        text=_pattern(
            r"spend(ing)? limit|credit balance is too low|exceeded your current quota|insufficient (credit|balance)"
        ),
        min_seconds=EXHAUSTED_SECONDS,
    ),
    FailureRow(
        why="out_of_money",
        action=Action.COOLDOWN,
        scope=Scope.ACCOUNT,
        kinds=frozenset({FailureKind.BILLING}),
        min_seconds=EXHAUSTED_SECONDS,
    ),
    # The command that prints the key of this account has failed; it may work again in a moment.
    FailureRow(
        why=NO_CREDENTIAL,
        action=Action.COOLDOWN,
        scope=Scope.ACCOUNT,
        codes=frozenset({"upstream_credential"}),
    ),
    FailureRow(
        why="bad_key", action=Action.DISABLE, scope=Scope.ACCOUNT, kinds=frozenset({FailureKind.AUTHENTICATION})
    ),
    FailureRow(
        why="bad_key",
        action=Action.DISABLE,
        scope=Scope.ACCOUNT,
        statuses=frozenset({400, 403}),
        text=_pattern(r"(invalid|incorrect) api key|api key not valid"),
    ),
    # OpenAI's limits are per model and its text names the model; other models of this account still work.
    FailureRow(
        why="rate_limited",
        action=Action.COOLDOWN,
        scope=Scope.ACCOUNT_MODEL,
        kinds=frozenset({FailureKind.RATE_LIMIT}),
        text=_pattern(r"^rate limit reached for \S+ in organization"),
    ),
    FailureRow(
        why="rate_limited",
        action=Action.COOLDOWN,
        scope=Scope.ACCOUNT,
        kinds=frozenset({FailureKind.RATE_LIMIT}),
        without_usual_time=True,
        min_seconds=NO_RETRY_TIME_SECONDS,
        any_model=False,
    ),
    FailureRow(
        why="rate_limited",
        action=Action.COOLDOWN,
        scope=Scope.ACCOUNT,
        kinds=frozenset({FailureKind.RATE_LIMIT}),
        any_model=False,
    ),
    # The account doesn't have this model; its other models work.
    FailureRow(
        why="model_not_found",
        action=Action.COOLDOWN,
        scope=Scope.ACCOUNT_MODEL,
        kinds=frozenset({FailureKind.MODEL_NOT_FOUND}),
        delay=MODEL_SECONDS,
    ),
    FailureRow(
        why="model_not_found",
        action=Action.COOLDOWN,
        scope=Scope.ACCOUNT_MODEL,
        statuses=frozenset({403, 404}),
        kinds=frozenset({FailureKind.PERMISSION, FailureKind.NOT_FOUND, FailureKind.INVALID_REQUEST}),
        text=_MODEL_TEXT,
        delay=MODEL_SECONDS,
    ),
    # The provider refuses our region: another egress proxy may be in a supported one.
    FailureRow(
        why="region_refused",
        action=Action.NEXT,
        scope=Scope.ACCOUNT,
        codes=frozenset({"unsupported_country_region_territory"}),
        fault=True,
        blame_proxy=True,
    ),
    # Nothing has reached the client yet, so another account can try.
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
    FailureRow(
        why=NOT_FOUND,
        action=Action.CLIENT,
        statuses=frozenset({404}),
        kinds=frozenset({FailureKind.NOT_FOUND}),
    ),
    FailureRow(
        why=FORBIDDEN,
        action=Action.CLIENT,
        statuses=frozenset({403}),
        kinds=frozenset({FailureKind.PERMISSION}),
    ),
)

OTHERWISE = "client_error"
"""Unknown failures go to the client unchanged."""


def classify(error: Failure | UpstreamError, rules: Sequence[RetryRule] = ()) -> Verdict:
    """Return the verdict on a failure before the first byte."""
    failure = failure_of(error)
    for number, rule in enumerate(rules, 1):
        if rule_matches(rule, failure):
            return _by_rule(rule, number, failure)
    row = next((row for row in ROWS if row.matches(failure)), None)
    if row is None:
        return Verdict(action=Action.CLIENT, why=OTHERWISE, status=failure.status)
    is_ours = isinstance(error, UpstreamError) and not isinstance(error, UpstreamFailure)
    return Verdict(
        action=row.action,
        scope=row.scope,
        delay=row.delay if row.delay is not None else failure.retry_after,
        min_seconds=row.min_seconds,
        why=row.why,
        fault=row.fault,
        any_model=row.any_model,
        blame_proxy=row.blame_proxy or (isinstance(error, UpstreamConnect) and error.proxy),
        status=failure.status,
        unreached=isinstance(error, UpstreamConnect | UpstreamTimeout) and error.connecting,
        text=str(error) if is_ours else "",
        words="" if is_ours or (row.action, row.scope) not in _ABOUT_ACCOUNT else _words(failure),
    )


_ABOUT_ACCOUNT = frozenset({(Action.DISABLE, Scope.ACCOUNT), (Action.COOLDOWN, Scope.ACCOUNT)})


def _words(failure: Failure) -> str:
    """Return what an upstream says, on one line of a limited length."""
    text = "".join([character if character.isprintable() else " " for character in failure.message[: 2 * MOST_WORDS]])
    return " ".join(text.split())[:MOST_WORDS]


def rule_matches(rule: RetryRule, failure: Failure) -> bool:
    """Return whether everything that a rule gives matches."""
    if rule.status is not None and rule.status != failure.status:
        return False
    if rule.code is not None and rule.code not in (failure.code, failure.type):
        return False
    return rule.text is None or contains(failure.message, rule.text)


def contains(text: str, pattern: str) -> bool:
    """Return whether a pattern with `*` is found in a text. Takes linear time, whatever patterns users write."""
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
    "cooldown": Action.COOLDOWN,
    "disable": Action.DISABLE,
}


def _by_rule(rule: RetryRule, number: int, failure: Failure) -> Verdict:
    action = _RULE_ACTIONS[rule.action]
    scopes = {Action.COOLDOWN: Scope(rule.scope), Action.DISABLE: Scope.ACCOUNT, Action.NEXT: Scope.ACCOUNT}
    return Verdict(
        action=action,
        scope=scopes.get(action, Scope.NONE),
        delay=rule.seconds if rule.seconds is not None else failure.retry_after,
        why=f"rule_{number}",
        status=failure.status,
    )

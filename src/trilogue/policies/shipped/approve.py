"""The policy `approve`: holds a tool call until a person has said yes or no.

It returns an `ApprovalQuestion`, and the driver shows it and resolves the run with True, False or an `Approval`.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct
from msgspec.structs import replace

from trilogue.model import Block
from trilogue.policies.calls import call_of, names_of
from trilogue.policies.checks import PolicyProblem
from trilogue.policies.policy import Context, Policy, PolicySettings
from trilogue.policies.shipped.action import ActionSettings, SettingsProblem, fits_name, forbid
from trilogue.policies.verdicts import PASS, Ask, Pass

_REFERENCE = re.compile(r"(env|file|store|cmd):")
"""a secret that was not looked up, because the program that loads the policy runs none"""


class WebhookTarget(Struct, frozen=True):
    """An address that gets the question too. `secret`: signs it. It prints as `WebhookTarget(***)`."""

    url: str
    secret: str

    def __repr__(self) -> str:
        return "WebhookTarget(***)"


class ApprovalQuestion(Struct, frozen=True, kw_only=True):
    """A question for a person: may this call go on? Resolve the run with True, False or an `Approval`.

    Show `arguments` only to people who may decide, and never log them.
    """

    tool: str
    arguments: str
    key: str
    route: str
    model: str
    webhook: WebhookTarget | None = None

    def __repr__(self) -> str:
        return "ApprovalQuestion(***)"


class Approval(Struct, frozen=True):
    """A decision, and who made it. The name goes into the records, and not to the client."""

    approved: bool
    by: str = ""


class ApproveSettings(ActionSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of `approve`. `tools`: names of the tools that need approval. `timeout`: how long to wait, in seconds.

    `characters`: longer arguments are forbidden without asking. `webhook`: an address that gets the question too;
    `webhook_secret` signs it. Without a decision in time, `on_error` applies: the response is stopped unless it says
    `open`.
    """

    tools: tuple[str, ...] = ("*",)
    timeout: Annotated[float, Meta(gt=0)] = 300.0
    characters: Annotated[int, Meta(ge=1)] = 20_000
    instead: Literal["text", "refusal", "drop", "stop"] = "text"
    webhook: str = ""
    webhook_secret: str = ""

    def __repr__(self) -> str:
        return f"ApproveSettings({self.name})"


class Approve(Policy):
    """Asks before some tools are called."""

    Settings = ApproveSettings
    _default_name = "Approve"
    secrets: ClassVar[tuple[str, ...]] = ("webhook", "webhook_secret")
    calls = True

    def __init__(self, settings: PolicySettings | None = None) -> None:
        chosen = settings if isinstance(settings, ApproveSettings) else ApproveSettings()
        super().__init__(chosen)
        self._settings = chosen
        self._webhook = _webhook(chosen)

    def on_block(self, block: Block, context: Context) -> object:
        """Ask about a call of one of the tools."""
        call = call_of(block)
        wanted = any([fits_name(self._settings.tools, name) for name in names_of(block)])
        if call is None or not wanted:
            return PASS
        most = self._settings.characters
        if len(call.text) > most:
            # Nobody can decide on what cannot be read.
            return forbid(self._settings, f"The call of {call.name}", f"it has more than {most} characters")
        question = ApprovalQuestion(
            tool=call.name,
            arguments=call.text,
            key=context.key,
            route=context.route,
            model=context.model,
            webhook=self._webhook,
        )
        return Ask(question, lambda answer: self._read(answer, call.name))

    def _read(self, answer: object, name: str) -> object:
        given = Approval(answer) if isinstance(answer, bool) else answer
        if not isinstance(given, Approval):
            return PolicyProblem("got an answer that is neither yes nor no")
        by = f" by {given.by}" if given.by else ""
        if given.approved:
            return Pass(reason=f"approved{by}")
        return replace(forbid(self._settings, f"The call of {name}", "it was not approved"), reason=f"denied{by}")


def _webhook(settings: ApproveSettings) -> WebhookTarget | None:
    """Return where the question is sent. Raises `SettingsProblem`."""
    url, secret = settings.webhook, settings.webhook_secret
    if not url:
        if secret:
            raise SettingsProblem("webhook_secret: there is no webhook")
        return None
    if not secret:
        raise SettingsProblem("webhook_secret: is required with webhook, so that the receiver can check who asks")
    if not _REFERENCE.match(url) and not _is_safe(url):
        raise SettingsProblem("webhook: must be an https URL, or an http URL on this machine")
    return WebhookTarget(url, secret)


def _is_safe(url: str) -> bool:
    """Return whether a URL is one that may get arguments: nobody on the way can read them."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
        if parts.scheme == "https" or host == "localhost":
            return parts.scheme in ("http", "https") and bool(host)
        return parts.scheme == "http" and ip_address(host).is_loopback
    except ValueError:
        return False

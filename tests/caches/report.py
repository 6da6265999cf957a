"""The share of input tokens that sessions read from the cache: at the client's own vendor and through the gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from tests.caches import sessions
from tests.caches.clients import Client
from tests.caches.clients_messages import ClaudeCode, MessagesClient, OldClaudeCode, OpencodeMessages, SdkMessages
from tests.caches.clients_openai import (
    Chain,
    Codex,
    CodexSocket,
    OpencodeChat,
    OpencodeResponses,
    SdkChat,
    SdkResponses,
)
from tests.caches.running import OWN_VENDORS, PROVIDERS, Exchange, FailedError, World
from tests.caches.sessions import Session
from tests.caches.vendors import Luck

AIM = 0.95
UPSTREAMS = (
    "anthropic/claude-opus-4-8",
    "anthropic/claude-sonnet-4-5",
    "glm/glm-4.6",
    "openai/gpt-5.4",
    "openai/gpt-5.6",
    "openai-chat/gpt-5.4",
    "openai-chat/gpt-5.6",
    "deepseek/deepseek-chat",
    "vllm/qwen3",
    "vllm-responses/qwen3",
)
CLIENTS: dict[str, type[Client]] = {
    "Claude Code": ClaudeCode,
    "Claude Code 2.1.175": OldClaudeCode,
    "Codex": Codex,
    "Codex (WebSocket)": CodexSocket,
    "opencode (Chat)": OpencodeChat,
    "opencode (Messages)": OpencodeMessages,
    "opencode (Responses)": OpencodeResponses,
    "OpenAI SDK (Chat)": SdkChat,
    "OpenAI SDK (chain)": Chain,
    "OpenAI SDK (items)": SdkResponses,
    "Vercel AI SDK (Messages)": SdkMessages,
}
SESSIONS: dict[str, Session] = {
    "one long": sessions.LONG,
    "four short": sessions.SHORT,
    "subagents, compaction": sessions.HELPED,
    "many calls": sessions.WIDE,
}


@dataclass(frozen=True)
class Figures:
    """The share of input tokens that are read, and the cost of all input against full price."""

    share: float
    cost: float

    def __str__(self) -> str:
        return f"{100 * self.share:.1f} %, {self.cost:.2f}"


@dataclass(frozen=True)
class Row:
    """A session of a client with an upstream. `through` is None if it failed."""

    client: str
    upstream: str
    session: str
    accounts: int
    ideal: Figures
    through: Figures | None
    note: str = ""

    @property
    def ratio(self) -> float:
        return self.through.share / self.ideal.share if self.through else 0.0

    @property
    def good(self) -> bool:
        return self.ratio >= AIM

    @property
    def cells(self) -> tuple[str, ...]:
        """Return what the table says."""
        through = str(self.through) if self.through else f"failed: {self.note}"
        name = f"{self.session}, {'one account' if self.accounts == 1 else f'{self.accounts} accounts'}"
        ratio = f"{100 * self.ratio:.0f} %"
        return self.client, self.upstream, name, str(self.ideal), through, ratio if self.good else f"**{ratio}**"


HEAD = ("client", "upstream", "session", "ideal: read, cost", "through Trilogue: read, cost", "ratio")


def figures(exchanges: Iterable[Exchange]) -> Figures:
    """Return the figures of a session."""
    usages = [arrived.usage for exchange in exchanges for arrived in exchange.arrived]
    total = sum(usage.total for usage in usages)
    return Figures(sum(usage.read for usage in usages) / total, sum(usage.cost for usage in usages) / total)


@dataclass(frozen=True)
class Case:
    """A row that can be measured."""

    client: str
    upstream: str
    session: str
    accounts: int

    def made(self, model: str, direct: bool = False) -> Client:
        """Return a new client. The vendors themselves have no WebSockets here."""
        kind = CLIENTS[self.client]
        made = (Codex if direct and kind is CodexSocket else kind)(model)
        if isinstance(made, MessagesClient) and "claude-sonnet-4-5" in model:
            # The client knows which of its own vendor's models refuse instructions in the middle.
            made.mid_system = False
        return made


def cases(wanted: Callable[[Case], bool]) -> list[Case]:
    """Return the rows that are wanted."""
    every = (
        Case(client, upstream, session, accounts)
        for client in CLIENTS
        for upstream in UPSTREAMS
        for session in SESSIONS
        for accounts in (1, 3)
        # Sessions are shared out among accounts, each of which has to read what they have in common once.
        if (accounts == 1) is (session == "four short") or session == "one long"
    )
    return [case for case in every if wanted(case)]


def measured(world: World, found: Iterable[Case]) -> Iterator[Row]:
    """Yield the rows, in order."""
    ideals: dict[tuple[str, str, str, float], Figures] = {}
    for case in found:
        model, luck = _own(case)
        key = (case.client, case.session, model, luck.astray)
        if key not in ideals:
            ideals[key] = figures(world.ideal(case.made(model, direct=True), SESSIONS[case.session], luck))
        row = partial(Row, case.client, case.upstream, case.session, case.accounts, ideals[key])
        try:
            played = world.through(case.made(case.upstream), SESSIONS[case.session], case.accounts)
        except FailedError as failed:
            yield row(None, str(failed))
        else:
            yield row(figures(played))


def _own(case: Case) -> tuple[str, Luck]:
    """Return the model at the client's own vendor, and the luck there.

    Where nothing is translated, it is the same model with the same luck; elsewhere a model that finds the longest
    prefixes, with good luck.
    """
    provider, _, model = case.upstream.partition("/")
    protocol, path, _ = PROVIDERS[provider]
    vendor, usual = OWN_VENDORS[CLIENTS[case.client].protocol]
    if protocol is CLIENTS[case.client].protocol and path.partition("/")[0] == vendor:
        return model, Luck()
    return usual, Luck(astray=0)


def worst(rows: Iterable[Row], by: Callable[[Row], object]) -> list[Row]:
    """Return the row with the lowest ratio of each group, in order."""
    found: dict[object, Row] = {}
    for row in rows:
        key = by(row)
        found[key] = min(found.get(key, row), row, key=lambda one: one.ratio)
    return list(found.values())


def table(rows: Iterable[Row]) -> str:
    """Return a table in Markdown."""
    lines = [HEAD, ("---",) * len(HEAD), *(row.cells for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)

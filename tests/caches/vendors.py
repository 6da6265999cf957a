"""Simulated prompt caches of vendors: what of a request is read, what is written, and what input costs.

Each stands for the cache of one account. `now` is the time of the session, in seconds, and not that of the machine.
Facts are those that vendors document; where they do not say how something is decided, the docstring says what is
assumed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random
from typing import Protocol as Interface

from tests.caches.units import CHARACTERS, Json, Unit, tokens, units_of
from trilogue.model import Protocol

READ = 0.1
WRITE = {"5m": 1.25, "1h": 2.0}
SECONDS = {"5m": 300, "1h": 3600, "30m": 1800, "12h": 43200, "24h": 86400}


class RefusedMarkError(Exception):
    """The vendor's answer is a 400, because of a mark."""


@dataclass(frozen=True)
class Usage:
    """Input tokens of a request, and what they cost in tokens at full price."""

    read: int
    written: int
    fresh: int
    cost: float

    @property
    def total(self) -> int:
        return self.read + self.written + self.fresh


class Cache(Interface):
    """The cache of one account."""

    def ask(self, body: Json, protocol: Protocol, now: float) -> Usage:
        """Return the usage of a request, and keep what it writes."""


def _chain(texts: Iterable[str], seed: str = "") -> Iterator[str]:
    """Yield, for each text, a hash of it and of all before it."""
    digest = hashlib.sha256(seed.encode())
    for text in texts:
        digest.update(text.encode() + b"\0")
        yield digest.hexdigest()


MINIMA = (
    (r"(opus|fable|mythos)-5", 512),
    (r"opus-4-7", 2048),
    (r"opus-4-[56]|haiku-4-5", 4096),
)
"""tokens below which Anthropic caches nothing, and says nothing; 1,024 for all other models"""


BILLING = '"text":"x-anthropic-billing-header:'
"""the block of Claude Code's instructions that Anthropic takes out"""


@dataclass
class AnthropicCache:
    """Anthropic: at most 4 marks; a write happens at a mark, and each mark looks back at most 20 blocks for one.

    A change of thinking, of `tool_choice` or from no images to some ends what is kept of messages. A read renews what
    it finds.
    """

    kept: dict[str, float] = field(default_factory=dict)
    """until when each written prefix lives"""

    MARKS = 4
    LOOKBACK = 20

    def ask(self, body: Json, protocol: Protocol, now: float) -> Usage:
        units = [unit for unit in units_of(body, protocol) if BILLING not in unit.form]
        marks = self._marks(body, units)
        sizes = list(accumulate(tokens(unit.text) for unit in units))
        hashes = self._hashes(body, units)
        minimum = next((least for name, least in MINIMA if re.search(name, str(body["model"]))), 1024)
        marks = {at: ttl for at, ttl in marks.items() if sizes[at] >= minimum}
        hit = max((self._found(at, hashes, now) for at in marks), default=-1)
        total = sizes[-1] if sizes else 0
        read = sizes[hit] if hit >= 0 else 0
        written, price, before = 0, 0.0, read
        for at, ttl in sorted(marks.items()):
            more = max(sizes[at] - before, 0)
            written, price, before = written + more, price + more * WRITE[ttl], before + more
            if units[at].place != "system" or not _after_turn(units, at):
                self.kept[hashes[at]] = max(self.kept.get(hashes[at], 0), now + SECONDS[ttl])
            if hit >= 0:
                self.kept[hashes[hit]] = max(self.kept.get(hashes[hit], 0), now + SECONDS[ttl])
        fresh = total - read - written
        return Usage(read, written, fresh, read * READ + price + fresh)

    def _found(self, at: int, hashes: list[str], now: float) -> int:
        """Return the place of the longest live prefix that a mark finds, or -1."""
        places = range(at, max(at - self.LOOKBACK, 0) - 1, -1)
        return next((place for place in places if self.kept.get(hashes[place], -1) >= now), -1)

    def _marks(self, body: Json, units: list[Unit]) -> dict[int, str]:
        """Return the lifetime of each mark, by its place. Raises RefusedMarkError for what the API refuses."""
        marks = {at: str(unit.mark.get("ttl", "5m")) for at, unit in enumerate(units) if unit.mark is not None}
        for at in marks:
            if units[at].kind in ("thinking", "redacted_thinking"):
                raise RefusedMarkError(f"cache_control cannot be set for {units[at].kind} blocks")
            if '"text":""' in units[at].form and units[at].kind == "text":
                raise RefusedMarkError("cache_control cannot be set for empty text blocks")
        if isinstance(automatic := body.get("cache_control"), dict) and units:
            last = max(at for at, unit in enumerate(units) if "thinking" not in unit.kind)
            marks.setdefault(last, str(automatic.get("ttl", "5m")))
        if len(marks) > self.MARKS:
            raise RefusedMarkError(f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}.")
        lifetimes = [ttl for _, ttl in sorted(marks.items())]
        if "1h" in lifetimes[lifetimes.index("5m") :] if "5m" in lifetimes else False:
            raise RefusedMarkError("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block")
        return marks

    def _hashes(self, body: Json, units: list[Unit]) -> list[str]:
        """Return a hash of each prefix, with what else it depends on."""
        images = any('"image"' in unit.form for unit in units)
        thinking = (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")
        state = f"{thinking} {body.get('tool_choice') or {'type': 'auto'}} {images}"
        texts, turns = [], False
        for unit in units:
            first = not turns and unit.place not in ("tools", "system")
            texts.append(f"{state}\n{unit.text}" if first else unit.text)
            turns = turns or first
        return list(_chain(texts, f"{body['model']} {body.get('speed')}"))


def _after_turn(units: list[Unit], at: int) -> bool:
    return any(unit.place not in ("tools", "system") for unit in units[:at])


@dataclass
class Luck:
    """Which of a vendor's machines gets a request.

    Requests with one key and one beginning go to the same machine. Those without a key go there as well, but with the
    probability `astray` to any of the others. Vendors do not publish the figure; the draws are the same for each seed.
    """

    machines: int = 4
    astray: float = 0.25
    seed: int = 28
    random: Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    def machine(self, key: str | None, beginning: str) -> int:
        home = int(hashlib.sha256(f"{key}\0{beginning}".encode()).hexdigest(), 16) % self.machines
        if key or self.machines == 1 or self.random.random() >= self.astray:
            return home
        return (home + self.random.randrange(1, self.machines)) % self.machines


ONE_MACHINE = Luck(machines=1, astray=0)
BEGINNING = 256 * CHARACTERS
"""characters of a prompt that decide about the machine"""


@dataclass
class PrefixCache:
    """An exact prefix of the prompt's text, in whole steps of tokens, from a least size: writing is free.

    OpenAI up to gpt-5.5 by default. DeepSeek and servers that one runs oneself have smaller steps and no luck.
    """

    step: int = 128
    least: int = 1024
    seconds: float = 600
    read_price: float = READ
    luck: Luck = field(default_factory=Luck)
    tools_first: bool = True
    kept: dict[tuple[int, str], float] = field(default_factory=dict)

    def ask(self, body: Json, protocol: Protocol, now: float) -> Usage:
        text = "".join(unit.text for unit in units_of(body, protocol, tools_first=self.tools_first))
        machine = self.luck.machine(body.get("prompt_cache_key"), text[:BEGINNING])
        size = self.step * CHARACTERS
        steps = [text[at : at + size] for at in range(0, len(text) - size + 1, size)]
        hashes = list(_chain(steps, str(body["model"])))
        found = 0
        while found < len(hashes) and self.kept.get((machine, hashes[found]), -1) >= now:
            found += 1
        read = found * self.step if found * self.step >= self.least else 0
        seconds = SECONDS["24h"] if body.get("prompt_cache_retention") == "24h" else self.seconds
        self.kept |= {(machine, one): now + seconds for one in hashes}
        fresh = tokens(text) - read
        return Usage(read, 0, fresh, read * self.read_price + fresh)


@dataclass
class BreakpointCache:
    """OpenAI from gpt-5.6: what is written ends at a breakpoint, and only there is it found.

    At most 4 writes: the newest turn (unless the mode is `explicit`) and the latest explicit ones. Matching considers
    the latest 80 breakpoints: explicit ones, and in implicit mode the ends of turns, where earlier requests had theirs.
    """

    luck: Luck = field(default_factory=Luck)
    kept: dict[tuple[int, str], float] = field(default_factory=dict)

    LATEST = 80
    WRITES = 4
    LEAST = 1024

    def ask(self, body: Json, protocol: Protocol, now: float) -> Usage:
        units = units_of(body, protocol)
        options = body.get("prompt_cache_options") or {}
        sizes = list(accumulate(tokens(unit.text) for unit in units))
        hashes = list(_chain((unit.text for unit in units), str(body["model"])))
        text = "".join(unit.text for unit in units)[:BEGINNING]
        machine = self.luck.machine(body.get("prompt_cache_key"), text)
        explicit = [at for at, unit in enumerate(units) if unit.mark is not None]
        implicit = options.get("mode") != "explicit" and bool(units)
        newest = [len(units) - 1] if implicit else []
        ends = {at for at, unit in enumerate(units) if unit.ends} if implicit else set()
        places = sorted({*explicit, *ends, *newest})[-self.LATEST :]
        live = [at for at in places if self.kept.get((machine, hashes[at]), -1) >= now and sizes[at] >= self.LEAST]
        hit = max(live, default=-1)
        read = sizes[hit] if hit >= 0 else 0
        writes = [at for at in [*explicit[-(self.WRITES - len(newest)) :], *newest] if sizes[at] >= self.LEAST]
        for at in {*writes, *live[-1:]}:
            self.kept[machine, hashes[at]] = now + SECONDS[options.get("ttl") or "30m"]
        written = max(sizes[max(writes)] - read, 0) if writes else 0
        fresh = (sizes[-1] if sizes else 0) - read - written
        return Usage(read, written, fresh, read * READ + written * WRITE["5m"] + fresh)


def anthropic() -> Cache:
    """Return a new account's cache at Anthropic."""
    return AnthropicCache()


def openai_of(model: str, luck: Luck) -> Cache:
    """Return a new account's cache at OpenAI for a model."""
    found = re.match(r"gpt-(\d+)\.(\d+)", model)
    return BreakpointCache(luck) if found and (int(found[1]), int(found[2])) >= (5, 6) else PrefixCache(luck=luck)


def deepseek() -> Cache:
    """Return a new account's cache at DeepSeek: steps of 64 tokens, kept for hours."""
    return PrefixCache(64, 64, SECONDS["12h"], luck=ONE_MACHINE, tools_first=False)


def own_server() -> Cache:
    """Return the cache of a server such as vLLM: blocks of 16 tokens, kept as long as there is memory."""
    return PrefixCache(16, 16, SECONDS["24h"], luck=ONE_MACHINE, tools_first=False)

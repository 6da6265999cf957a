"""Grants parts of limits to nodes. Every decision is one script in Redis, so that no two nodes are granted the same.

There is one hash for each subject. A node's field has the number of its latest question, when it came, and for each
count the period, what the node was granted, and what it has used. A node that has not asked for longer than its lease
may use no more than it has used, so only that counts for it. Its running requests have ended, or will be counted again
when it comes back.

A server that was emptied grants nothing for `RECOVERY_SECONDS`, until every node has told what it holds. What was spent
by nodes that are gone comes from the database first: see `LeaseServer.seed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from trilogue.gateway.features.cluster.link import LinkPart
from trilogue.gateway.features.cluster.messages import MAX_LENGTH, NODE, STREAM, TOPIC, Message
from trilogue.gateway.features.cluster.server import RedisServer
from trilogue.gateway.limits.leasing import FIRST_BUDGET, LEASE_SECONDS, CounterRequest, Grant

if TYPE_CHECKING:
    import redis.asyncio

LEASE_TOPIC = "lease"
SUBJECT = "subject"
STALE_MS = int(LEASE_SECONDS * 1000) + 2_000
"""longer than a lease, because clocks and connections are not exact"""
RECOVERY_SECONDS = 3.0
NOTICE_MS = 20
KEEP_SECONDS = 40 * 86_400
"""how long a subject is kept that nobody uses: longer than a month"""
EPOCH = "leases-epoch"
SEEDED = "_seeded"
WANTED = "_wanted"

# KEYS: the subject's hash, the stream of messages, the epoch. ARGV: node, number of the question, subject, then index,
# period, limit, granted, used and want for each count. Numbers are written as whole numbers: the default of Lua would
# round large ones. Returns 0 if a later question was here before; else 1, whether budgets are known, whether the server
# was emptied lately, the time, and for each count what `Grant` has.
_SYNC = f"""
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local epoch = redis.call('GET', KEYS[3])
if not epoch then
    epoch = string.format('%.0f', now)
    redis.call('SET', KEYS[3], epoch)
end
local recovering = now - tonumber(epoch) < {int(RECOVERY_SECONDS * 1000)}
local me, number = ARGV[1], tonumber(ARGV[2])
local all = redis.call('HGETALL', KEYS[1])
local others, fresh, seeded, wanted = {{}}, 1, false, 0
for i = 1, #all, 2 do
    local name, text = all[i], all[i + 1]
    if name == '{SEEDED}' then
        seeded = true
    elseif name == '{WANTED}' then
        wanted = tonumber(text)
    else
        local asked, at, rest = string.match(text, '^(%d+) (%d+) (.*)$')
        if name == me then
            if tonumber(asked) >= number then
                return {{0}}
            end
        else
            local other = {{fresh = now - tonumber(at) <= {STALE_MS}}}
            if other.fresh then
                fresh = fresh + 1
            end
            for index, period, granted, used in string.gmatch(rest, '(%d+):(%d+):(%d+):(%d+)') do
                other[tonumber(index)] = {{tonumber(period), tonumber(granted), tonumber(used)}}
            end
            others[#others + 1] = other
        end
    end
end
local record, reply, in_vain = {{}}, {{1, seeded and 1 or 0, recovering and 1 or 0, now}}, false
for i = 4, #ARGV, 6 do
    local index, period, limit = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
    local granted, used, want = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5])
    local newest, claimed, elsewhere, held = period, 0, 0, 0
    for _, other in ipairs(others) do
        local count = other[index]
        if count and count[1] > newest then
            newest = count[1]
        end
        if count and count[1] == period and (other.fresh or index > 0) then
            claimed = claimed + (other.fresh and math.max(count[2], count[3]) or count[3])
            elsewhere = elsewhere + count[3]
            if other.fresh then
                held = held + math.max(0, count[2] - count[3])
            end
        end
    end
    local free, given = limit - claimed - math.max(granted, used), 0
    if newest == period and want > 0 and free > 0 and not recovering and (seeded or index < {FIRST_BUDGET}) then
        given = math.min(want, free)
        given = given + math.max(0, math.min(granted, math.floor((free - given) / (2 * fresh))))
    end
    if given < want and held > 0 then
        in_vain = true
    end
    record[#record + 1] = string.format('%d:%d:%.0f:%.0f', index, period, granted + given, used)
    for _, value in ipairs({{index, newest, given, elsewhere, held}}) do
        reply[#reply + 1] = string.format('%.0f', value)
    end
end
redis.call('HSET', KEYS[1], me, string.format('%.0f %.0f ', number, now) .. table.concat(record, ' '))
redis.call('EXPIRE', KEYS[1], {KEEP_SECONDS})
if in_vain and now - wanted >= {NOTICE_MS} then
    redis.call('HSET', KEYS[1], '{WANTED}', string.format('%.0f', now))
    redis.call('XADD', KEYS[2], 'MAXLEN', '~', {MAX_LENGTH}, '*',
        '{TOPIC}', '{LEASE_TOPIC}', '{NODE}', me, '{SUBJECT}', ARGV[3])
end
return reply
"""


class LeaseRequest(Struct, frozen=True):
    """What a node tells and asks about a subject. `number`: grows with every question of the node about it."""

    subject: str
    number: int
    asks: Sequence[CounterRequest]

    @property
    def wants_money(self) -> bool:
        """Whether more of a budget is wanted."""
        return any(ask.want and ask.counter.which >= FIRST_BUDGET for ask in self.asks)


class LeaseReply(NamedTuple):
    """The decision. `at`: the server's time in milliseconds. `is_seeded`: whether it is known what others have spent.

    `recovering`: the server was emptied lately, and grants nothing yet.
    """

    grants: list[Grant]
    at: int
    is_seeded: bool
    recovering: bool


class Spent(NamedTuple):
    """What a node has spent in a period. `which`: the count."""

    node: str
    which: int
    period: int
    amount: int


class ReturnPart(LinkPart):
    """Receives that another node needs more of a subject. `wanted`: is called with its name, in the link's thread."""

    topics = frozenset({LEASE_TOPIC})

    def __init__(self, wanted: Callable[[str], None]) -> None:
        self._wanted = wanted

    def receive(self, messages: Sequence[Message]) -> None:
        """Pass on which subjects are needed elsewhere."""
        for subject in {message.fields.get(SUBJECT, b"") for message in messages}:
            self._wanted(subject.decode("utf-8", "replace"))


class LeaseServer:
    """The server as one worker asks it. Methods raise what `faults` lists."""

    def __init__(self, server: RedisServer, node: str) -> None:
        self._server = server
        self._node = node
        self._client: redis.asyncio.Redis | None = None
        self._script = ""

    async def ask(self, questions: Sequence[LeaseRequest]) -> list[LeaseReply | None]:
        """Ask several questions at once. None if a later question about the same subject was answered before."""
        client = self._connected()
        if not self._script:
            self._script = str(await client.script_load(_SYNC))
        async with client.pipeline(transaction=False) as pipeline:
            for one in questions:
                pipeline.evalsha(self._script, 3, *self._arguments(one))
            replies: list[Any] = await pipeline.execute(raise_on_error=False)
        for reply in replies:
            if isinstance(reply, Exception):
                # The server may have been restarted: then it does not know the script any more.
                self._script = ""
                raise reply
        return [_answer(reply) for reply in replies]

    def _arguments(self, question: LeaseRequest) -> list[Any]:
        keys = [self._key(question.subject), self._server.key(STREAM), self._server.key(EPOCH)]
        found: list[Any] = [*keys, self._node, question.number, question.subject]
        for counter, want in question.asks:
            found += [counter.which, counter.period, counter.limit, counter.granted, counter.used, want]
        return found

    async def begin(self) -> None:
        """Note when the server was first used, unless it knows: an empty server grants nothing for a while."""
        seconds, micros = await self._connected().time()
        await self._connected().set(self._server.key(EPOCH), int(seconds) * 1000 + int(micros) // 1000, nx=True)

    async def seed(self, subject: str, spent: Iterable[Spent]) -> None:
        """Tell what nodes have spent according to the database, for those that the server does not know."""
        client = self._connected()
        records: dict[str, list[str]] = {}
        for one in spent:
            if one.node != self._node:
                records.setdefault(one.node, []).append(f"{one.which}:{one.period}:{one.amount}:{one.amount}")
        key = self._key(subject)
        async with client.pipeline(transaction=False) as pipeline:
            for node, counts in records.items():
                pipeline.hsetnx(key, node, f"0 0 {' '.join(counts)}")
            pipeline.hset(key, SEEDED, "1")
            await pipeline.execute()

    async def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            await self._client.aclose()

    def _connected(self) -> redis.asyncio.Redis:
        if self._client is None:
            self._client = self._server.connect_async()
        return self._client

    def _key(self, subject: str) -> str:
        return self._server.key("lease", subject)


def _answer(reply: list[Any]) -> LeaseReply | None:
    if reply[0] == 0:
        return None
    numbers = [int(value) for value in reply[4:]]
    grants = [Grant(*numbers[start : start + 5]) for start in range(0, len(numbers), 5)]
    return LeaseReply(grants, int(reply[3]), bool(reply[1]), bool(reply[2]))

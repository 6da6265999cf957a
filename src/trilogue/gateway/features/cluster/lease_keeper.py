"""The limits of one worker in a cluster: asks for more when a request needs it, renews leases, returns what is idle.

A request waits only if what this machine was granted is used up. Questions of all requests about a subject go out as
one. Of the processes of a machine, one asks about a subject at a time: the row of the subject says so.

If the cluster is away, a machine goes on with what it was granted until the lease ends, then with its share of rate
limits, and without budgets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from random import SystemRandom

import structlog
from msgspec import Struct

from trilogue.gateway.features.cluster.leases import LeaseReply, LeaseRequest, LeaseServer, ReturnPart, Spent
from trilogue.gateway.features.cluster.member import ClusterMember
from trilogue.gateway.features.cluster.server import ClusterUnavailable, faults, reason_of
from trilogue.gateway.limits.budget_table import SpentBudgets, SpentRow
from trilogue.gateway.limits.counters import LEASE_UNTIL, RESERVED, RUNNING, SPENT_GRANTED, Row
from trilogue.gateway.limits.counting import Estimate, Subject, shortage
from trilogue.gateway.limits.leasing import (
    FIRST_BUDGET,
    LEASE_SECONDS,
    Counter,
    CounterRequest,
    Leasing,
    all_counters,
    begin_ask,
    counters,
    end_ask,
    give_back,
    is_valid,
    take_grants,
)
from trilogue.gateway.limits.shared_table import LimitTable
from trilogue.storage.database import StoreError

log = structlog.get_logger("trilogue.limits")

REPORT_SECONDS = 0.5
RENEW_SECONDS = 1.5
"""how old a lease may become that has something left"""
IDLE_SECONDS = 3.0
WRITE_SECONDS = 2.0
CLOSE_SECONDS = 2.0
MOST_QUESTIONS = 200
"""in one call, so that the server is not held up"""
TURN_SECONDS = 0.003
"""how long to wait for another process of this machine that asks"""
MOST_TURNS = 100
UNKNOWN_SECONDS = 1.0
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 4.0
_random = SystemRandom()


class _Held(Struct, eq=False):
    """A subject that this worker uses. `used_at`: when a request last counted for it, by the monotonic clock.

    `reported` and `written`: what was used when the cluster was last told, and spent when the database was.
    """

    used_at: float
    reported: tuple[int, ...] = ()
    written: tuple[int, ...] = ()


class _Waiting(Struct, eq=False):
    """Requests that need more of a subject, and what they need of each count in all."""

    subject: Subject
    wants: dict[int, int]
    answered: asyncio.Future[bool]


class LeaseKeeper:
    """The leases of one worker. `table`: the counts of this machine. `budgets`: None if no database is configured."""

    def __init__(self, member: ClusterMember, table: LimitTable, budgets: SpentBudgets | None) -> None:
        self._member = member
        self._table = table
        self._budgets = budgets
        self._node = member.node.id
        self._server = LeaseServer(member.server, self._node)
        self._held: dict[str, _Held] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._asking: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[None] | None = None
        self._returning: dict[str, asyncio.Task[None]] = {}
        self._began = False
        self._failures = 0
        """questions in a row that the server did not answer"""
        self._retry_at = 0.0
        self._recovering_until = 0.0
        """until when the server probably grants nothing, because it was emptied"""
        self._unknown_until = 0.0
        """until when it is not known what was spent"""
        self._nodes = 1
        self._reported_at = 0.0
        self._written_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        member.parts.append(ReturnPart(self._return_soon))

    def now(self) -> float:
        """Return the common time."""
        return self._member.clock.now()

    @property
    def leasing(self) -> Leasing:
        """How the cluster is doing, as `admit` needs it."""
        now = time.monotonic()
        is_away = self._failures > 0 or now < self._recovering_until
        return Leasing(is_away, 1.0 / self._nodes, now < self._unknown_until)

    def use(self, names: Iterable[str]) -> None:
        """Note that a request counts for these subjects, so that their leases are renewed."""
        now = time.monotonic()
        for name in names:
            held = self._held.get(name)
            if held is None:
                self._held[name] = _Held(now)
            else:
                held.used_at = now

    @property
    def spent_here(self) -> Callable[[str], Sequence[SpentRow]] | None:
        """What returns the budgets of a subject as far as this machine has spent them, and may block.

        None if no database keeps that.
        """
        budgets = self._budgets
        if budgets is None:
            return None
        return lambda subject: [row for row in budgets.read(subject) if row.node == self._node]

    async def more(self, subjects: Sequence[Subject], estimate: Estimate, requests: int = 1) -> bool:
        """Ask for what a request lacks. Return whether it is worth trying again if it is still refused.

        That is the case if there was something left, or if other machines hold what is needed: they were told to return
        it.
        """
        if self._failures and time.monotonic() < self._retry_at:
            return False
        waiting = [self._want(subject, estimate, requests) for subject in subjects]
        answers = await asyncio.gather(*(asyncio.shield(one) for one in waiting if one is not None))
        return any(answers)

    def _want(self, subject: Subject, estimate: Estimate, requests: int) -> asyncio.Future[bool] | None:
        with self._table.rows([str(subject)]) as rows:
            asks = shortage(self.now(), subject, rows[0], estimate, requests)
        wants = {ask.counter.which: ask.want for ask in asks if ask.want}
        if not wants:
            return None
        loop = asyncio.get_running_loop()
        waiting = self._waiting.get(str(subject))
        if waiting is None:
            waiting = self._waiting[str(subject)] = _Waiting(subject, {}, loop.create_future())
        for index, want in wants.items():
            waiting.wants[index] = waiting.wants.get(index, 0) + want
        if self._asking is None or self._asking.done():
            self._asking = loop.create_task(self._ask_all())
        return waiting.answered

    async def _ask_all(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, {}
            try:
                results = await self._sync([(name, one.subject, one.wants) for name, one in waiting.items()])
            except Exception as error:  # the task boundary: requests must not wait for an answer that never comes
                log.error("bug", error=type(error).__name__, exc_info=True)
                results = {}
            for name, one in waiting.items():
                one.answered.set_result(results.get(name, False))

    async def _sync(self, wanted: Sequence[tuple[str, Subject | None, dict[int, int]]]) -> dict[str, bool]:
        """Ask about some subjects. Return for each whether trying again may help.

        A subject that is None is reported only: nothing more is wanted of it.
        """
        results: dict[str, bool] = {}
        questions: list[LeaseRequest] = []
        for name, subject, wants in wanted:
            question = self._question(name, subject, wants)
            if question is None:
                results[name] = True
            else:
                questions.append(question)
        is_busy = bool(results)
        for start in range(0, len(questions), MOST_QUESTIONS):
            results |= await self._exchange(questions[start : start + MOST_QUESTIONS])
        if is_busy:
            await asyncio.sleep(TURN_SECONDS)
        return results

    def _question(self, name: str, subject: Subject | None, wants: dict[int, int]) -> LeaseRequest | None:
        """Return the question about a subject; None if another process of this machine is asking."""
        now = self.now()
        with self._table.rows([name]) as rows:
            row = rows[0]
            number = begin_ask(now, row)
            if number is None:
                return None
            if not is_valid(now, row):
                # What was granted before may be granted to others by now.
                give_back(now, row)
            found = all_counters(now, row) if subject is None else _counters_of(now, subject, row)
            return LeaseRequest(name, number, [CounterRequest(one, wants.get(one.which, 0)) for one in found])

    async def _exchange(self, questions: Sequence[LeaseRequest]) -> dict[str, bool]:
        try:
            answers = await self._server.ask(questions)
        except _faults() as error:
            self._lost(error)
            for question in questions:
                with self._table.rows([question.subject]) as rows:
                    end_ask(rows[0], question.number)
            return {}
        self._found()
        results: dict[str, bool] = {}
        for question, answer in zip(questions, answers, strict=True):
            results[question.subject] = self._take(question, answer)
            if answer is not None and answer.recovering:
                self._recovering_until = time.monotonic() + UNKNOWN_SECONDS
            elif answer is not None and not answer.is_seeded and question.wants_money:
                results[question.subject] = await self._seed(question.subject)
        return results

    def _take(self, question: LeaseRequest, answer: LeaseReply | None) -> bool:
        """Write an answer into the row. Return whether trying again may help."""
        with self._table.rows([question.subject]) as rows:
            if not end_ask(rows[0], question.number) or answer is None:
                return True
            until = answer.at + int(LEASE_SECONDS * 1000)
            take_grants(rows[0], [ask.counter for ask in question.asks], answer.grants, until)
        # Also if enough was given: another request may take it first.
        return any(
            ask.want and (grant.given or grant.held or grant.period != ask.counter.period)
            for ask, grant in zip(question.asks, answer.grants, strict=True)
        )

    async def _seed(self, subject: str) -> bool:
        """Tell the server what was spent according to the database. Return whether that worked."""
        try:
            rows = await asyncio.to_thread(self._budgets.read, subject) if self._budgets is not None else []
            await self._server.seed(subject, [Spent(row.node, row.counter, row.period, row.spent) for row in rows])
        except StoreError as error:
            log.warning("budgets cannot be checked: what was spent is not known", error=str(error))
            self._unknown_until = time.monotonic() + UNKNOWN_SECONDS
            return False
        except _faults() as error:
            self._lost(error)
            return False
        return True

    def _lost(self, error: Exception) -> None:
        if not self._failures:
            reason = str(error) if isinstance(error, ClusterUnavailable) else reason_of(error)
            log.warning("limits: the cluster cannot be asked; this node uses its share", reason=reason)
        self._failures += 1
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures - 1, 8))
        self._retry_at = time.monotonic() + pause * _random.uniform(0.5, 1.0)

    def _found(self) -> None:
        if self._failures:
            log.info("limits: the cluster can be asked again")
        self._failures = 0

    # --- beside requests ---

    def tick(self, nodes: int) -> None:
        """Renew leases and return what is idle, in the background. Call it several times a second, in the loop.

        `nodes`: how many nodes there are, as far as this one knows.
        """
        self._loop, self._nodes, now = asyncio.get_running_loop(), max(1, nodes), time.monotonic()
        is_due = now - self._reported_at >= REPORT_SECONDS and (not self._failures or now >= self._retry_at)
        if is_due and (self._held or not self._began) and (self._reporting is None or self._reporting.done()):
            self._reported_at = now
            self._reporting = self._loop.create_task(self._report())

    async def aclose(self) -> None:
        """Return what this machine does not use, write what was spent, and close the connection."""
        for task in (self._reporting, self._asking):
            if task is not None and not task.done():
                await asyncio.wait([task], timeout=CLOSE_SECONDS)
                task.cancel()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                self._give_back(self._held)
                await self._sync([(name, None, {}) for name in self._held])
                await self._write()
        except TimeoutError:
            log.warning("limits: the cluster was not told at the end what this node has used")
        await self._server.close()
        if self._budgets is not None:
            await asyncio.to_thread(self._budgets.close)

    def _return_soon(self, name: str) -> None:
        """Return what this machine does not use of a subject, because another one needs it. Called in a thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._return, name)

    def _return(self, name: str) -> None:
        if name not in self._returning and self._table.has(name) and self._give_back([name]):
            task = asyncio.get_running_loop().create_task(self._tell_returned(name))
            self._returning[name] = task

    async def _tell_returned(self, name: str) -> None:
        try:
            for _ in range(MOST_TURNS):
                if not (await self._sync([(name, None, {})])).get(name):
                    break
        except Exception as error:  # the task boundary: the end of the lease returns it as well
            log.error("bug", error=type(error).__name__, exc_info=True)
        finally:
            del self._returning[name]

    def _give_back(self, names: Iterable[str]) -> bool:
        """Return whether there was anything to return. The cluster has to be told."""
        now, found = self.now(), False
        for name in names:
            with self._table.rows([name]) as rows:
                found |= give_back(now, rows[0])
        return found

    async def _report(self) -> None:
        """Tell the cluster what is used, where that has changed or the lease must be renewed."""
        try:
            if not self._began:
                await self._server.begin()
                self._began = True
            due = [name for name in list(self._held) if self._is_due(name)]
            await self._sync([(name, None, {}) for name in due])
            if time.monotonic() - self._written_at >= WRITE_SECONDS:
                self._written_at = time.monotonic()
                await self._write()
        except _faults() as error:
            self._lost(error)
        except Exception as error:  # the task boundary: the next report may work
            log.error("bug", error=type(error).__name__, exc_info=True)

    def _is_due(self, name: str) -> bool:
        """Return whether the cluster must be told about a subject. One that is idle is given back and forgotten."""
        held, now = self._held[name], self.now()
        with self._table.rows([name]) as rows:
            row = rows[0]
            found = list(all_counters(now, row))
            used, age = tuple([one.used for one in found]), LEASE_SECONDS - (row[LEASE_UNTIL] / 1000 - now)
            is_idle = time.monotonic() - held.used_at > IDLE_SECONDS and not row[RUNNING]
            if is_idle and held.written == _spent(found, row):
                give_back(now, row)
                del self._held[name]
                return True
            if used == held.reported and (age < RENEW_SECONDS or not any(one.granted > one.used for one in found)):
                return False
            if age < REPORT_SECONDS / 2:
                return False  # another process of this machine has just done it
        held.reported = used
        return True

    async def _write(self) -> None:
        """Write what was spent to the database."""
        changed: dict[str, tuple[int, ...]] = {}
        lines: list[SpentRow] = []
        for name, held in self._held.items():
            with self._table.rows([name]) as rows:
                found = [one for one in all_counters(self.now(), rows[0]) if one.which >= FIRST_BUDGET]
                spent = _spent(found, rows[0])
            if spent != held.written:
                changed[name] = spent
                parts = zip(found, spent, strict=True)
                lines += [SpentRow(name, self._node, one.which, one.period, amount) for one, amount in parts]
        if not lines:
            return
        try:
            if self._budgets is not None:
                await asyncio.to_thread(self._budgets.write, lines)
        except StoreError as error:
            log.warning("what was spent cannot be stored; it is tried again", error=str(error))
            return
        for name, spent in changed.items():
            if name in self._held:
                self._held[name].written = spent


def _faults() -> tuple[type[Exception], ...]:
    """Return what asking the cluster may raise."""
    return (*faults(), ClusterUnavailable)


def _counters_of(now: float, subject: Subject, row: Row) -> list[Counter]:
    """Return the counts of a subject: those with a limit, and others that are in use."""
    limited = list(counters(now, subject.limits, subject.budget, row))
    known = {one.which for one in limited}
    return [*limited, *(one for one in all_counters(now, row) if one.which not in known)]


def _spent(found: Iterable[Counter], row: Row) -> tuple[int, ...]:
    """Return what was spent of each budget, without what is reserved."""
    return tuple([one.used - row[one.at - SPENT_GRANTED + RESERVED] for one in found if one.which >= FIRST_BUDGET])

"""Several worker processes on one socket: started, replaced when one dies, reloaded and stopped together."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from types import FrameType

import structlog

log = structlog.get_logger("trilogue.server")

RunWorker = Callable[[socket.socket], None]
Reload = Callable[[], bool]
LOOK_SECONDS = 0.1
SLOWEST_RESPAWN = 5.0
HEALTHY_SECONDS = 10.0
"""A worker that lived this long did not die of what it was born with."""


class Supervisor:
    """Keeps `count` workers running until it is told to stop.

    `reload`: looks at the new configuration; only if it is good the workers are told. Workers hear of Ctrl-C from here
    alone: a terminal sends it to every process, and twice means at once.
    """

    def __init__(self, run: RunWorker, reload: Reload, listener: socket.socket, count: int) -> None:
        # Forked from a process without threads and event loops, so workers inherit the socket and nothing else.
        self._context = get_context("fork")
        self._run = run
        self._reload = reload
        self._listener = listener
        self._count = count
        self._workers: list[BaseProcess] = []
        self._started: dict[BaseProcess, float] = {}
        self._pause = 0.0
        self._stopping = False

    def run(self) -> None:
        """Until SIGTERM or SIGINT; then until the last worker has drained."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGHUP, self._reload_all)
        self._workers = [self._start() for _ in range(self._count)]
        while not self._stopping or any(worker.is_alive() for worker in self._workers):
            time.sleep(LOOK_SECONDS)
            if not self._stopping:
                self._replace_dead()

    def _start(self) -> BaseProcess:
        worker = self._context.Process(target=_worker, args=(self._run, self._listener))
        # The new process must not take this signal for its own before it knows what to do with it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        worker.start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        self._started[worker] = time.monotonic()
        if self._stopping:
            worker.terminate()
        return worker

    def _replace_dead(self) -> None:
        for position, worker in enumerate(self._workers):
            if worker.is_alive() or self._stopping:
                continue
            log.error("worker died", exit_code=worker.exitcode)
            lived = time.monotonic() - self._started.pop(worker)
            # The first one is replaced at once; workers that die as soon as they start are given more and more time.
            self._pause = 0.0 if lived > HEALTHY_SECONDS else min(SLOWEST_RESPAWN, 2 * self._pause + LOOK_SECONDS)
            time.sleep(self._pause)
            self._workers[position] = self._start()

    def _stop(self, number: int, _: FrameType | None) -> None:
        self._signal(signal.SIGKILL if self._stopping else signal.SIGTERM)
        if self._stopping:
            os._exit(128 + number)
        self._stopping = True
        # Workers have it too. Where nobody takes connections any more, there must be none to be made.
        self._listener.close()

    def _reload_all(self, number: int, _: FrameType | None) -> None:
        if self._reload():
            self._signal(number)

    def _signal(self, number: int) -> None:
        for worker in self._workers:
            if worker.pid is not None and worker.is_alive():
                os.kill(worker.pid, number)


def _worker(run: RunWorker, listener: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if listener.fileno() >= 0:  # else it was born when all were told to stop
        run(listener)

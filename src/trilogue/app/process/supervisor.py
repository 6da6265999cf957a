"""Starts several worker processes on one socket, replaces those that die, and reloads and stops them together."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from types import FrameType

import structlog

from trilogue.gateway.log.guard import Guard

log = structlog.get_logger("trilogue.server")

RunWorker = Callable[[socket.socket], None]
Reload = Callable[[], bool]
LOOK_SECONDS = 0.1
SLOWEST_RESPAWN = 5.0
HEALTHY_SECONDS = 10.0
"""A worker that ran this long did not die of its configuration."""


class Supervisor:
    """The parent of `count` workers, which it keeps running until it is stopped.

    `reload`: checks the new configuration; the workers only get the signal if it is valid. Workers ignore Ctrl-C and
    get it from here: a terminal sends it to every process, and a second one means to stop at once.
    """

    def __init__(self, run: RunWorker, reload: Reload, listener: socket.socket, count: int) -> None:
        # This process has no threads and no event loop, so workers inherit the socket and nothing else.
        self._context = get_context("fork")
        self._run = run
        self._reload = reload
        self._listener = listener
        self._count = count
        self._workers: list[BaseProcess] = []
        self._started: dict[BaseProcess, float] = {}
        self._pause = 0.0
        self._stopping = False
        self._guard = Guard()
        self.on_death: Callable[[set[int]], None] = _ignore
        """called when a worker has died, with the ids of those that run, before it is replaced"""

    def run(self) -> None:
        """Run until SIGTERM or SIGINT, and then until the last worker has drained."""
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
        # Without a handler, SIGHUP would end the new process: it unblocks the signal once it has one.
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
            left = {one.pid for one in self._workers if one.pid is not None and one.is_alive()}
            self._guard.run("what a worker left", partial(self.on_death, left))
            lived = time.monotonic() - self._started.pop(worker)
            # The first one is replaced at once. If workers keep dying at their start, the delay grows.
            self._pause = 0.0 if lived > HEALTHY_SECONDS else min(SLOWEST_RESPAWN, 2 * self._pause + LOOK_SECONDS)
            time.sleep(self._pause)
            self._workers[position] = self._start()

    def _stop(self, number: int, _: FrameType | None) -> None:
        self._signal(signal.SIGKILL if self._stopping else signal.SIGTERM)
        if self._stopping:
            os._exit(128 + number)
        self._stopping = True
        # Workers have it too. Once they stop accepting, new connections must be refused rather than wait in its queue.
        self._listener.close()

    def _reload_all(self, number: int, _: FrameType | None) -> None:
        if self._reload():
            self._signal(number)

    def _signal(self, number: int) -> None:
        for worker in self._workers:
            if worker.pid is not None and worker.is_alive():
                os.kill(worker.pid, number)


def _ignore(running: set[int]) -> None:
    """Do nothing about a worker that has died."""


def _worker(run: RunWorker, listener: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if listener.fileno() >= 0:  # else all workers were stopped while it was starting
        run(listener)

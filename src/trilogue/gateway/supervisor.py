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
RESPAWN_SECONDS = 0.2


class Supervisor:
    """Keeps `count` workers running until it is told to stop."""

    def __init__(self, run: RunWorker, listener: socket.socket, count: int) -> None:
        # Forked before any thread or event loop exists, so workers inherit the socket and nothing else.
        self._context = get_context("fork")
        self._run = run
        self._listener = listener
        self._count = count
        self._workers: list[BaseProcess] = []
        self._stopping = False

    def run(self) -> None:
        """Until SIGTERM or SIGINT; then until the last worker has drained."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGHUP, self._forward)
        self._workers = [self._start() for _ in range(self._count)]
        while not self._stopping or any(worker.is_alive() for worker in self._workers):
            time.sleep(RESPAWN_SECONDS)
            if not self._stopping:
                self._replace_dead()

    def _start(self) -> BaseProcess:
        worker = self._context.Process(target=_worker, args=(self._run, self._listener))
        worker.start()
        return worker

    def _replace_dead(self) -> None:
        for position, worker in enumerate(self._workers):
            if not worker.is_alive():
                log.error("worker died", exit_code=worker.exitcode)
                self._workers[position] = self._start()

    def _stop(self, number: int, _: FrameType | None) -> None:
        self._stopping = True
        self._forward(signal.SIGTERM if number == signal.SIGTERM else signal.SIGINT, None)

    def _forward(self, number: int, _: FrameType | None) -> None:
        for worker in self._workers:
            if worker.pid is not None and worker.is_alive():
                os.kill(worker.pid, number)


def _worker(run: RunWorker, listener: socket.socket) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    run(listener)

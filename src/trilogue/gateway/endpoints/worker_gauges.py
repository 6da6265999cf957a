"""The metrics of a worker that are read when they are asked for: requests, connections, accounts, log."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trilogue.gateway.endpoints.generate import ActiveRequests
from trilogue.gateway.log.output import dropped_lines
from trilogue.gateway.metrics import families
from trilogue.gateway.metrics.worker_metrics import WorkerMetrics
from trilogue.gateway.setup.services import Services
from trilogue.pool.pools import STATES, state_of
from trilogue.state import steady_time

Sample = tuple[tuple[str, ...], float]


def register_gauges(metrics: WorkerMetrics, running: ActiveRequests, services: Callable[[], Services]) -> None:
    """Register what this worker knows. `services`: returns those in use; a reload replaces them."""
    workers = services().config.server.workers  # a reload does not change it
    metrics.register(families.IN_FLIGHT, lambda: [((), len(running.requests))])
    metrics.register(families.OPEN_STREAMS, lambda: [((), _open_streams(running))])
    metrics.register(families.CONNECTIONS, lambda: _connections(services()))
    metrics.register(families.ACCOUNT_STATE, lambda: _account_states(services()))
    metrics.register(families.LOG_DROPPED, lambda: [((), dropped_lines())])
    metrics.register(families.WORKERS_EXPECTED, lambda: [((), workers)])


def _open_streams(running: ActiveRequests) -> int:
    return sum(context.record.stream and context.responder.started for context in running.requests)


def _connections(services: Services) -> list[Sample]:
    used, idle = services.connections()
    return [(("active",), used), (("idle",), idle)]


def _account_states(services: Services) -> Iterator[Sample]:
    now = steady_time()
    for pool in services.pools.pools.values():
        for account in pool.accounts:
            current = state_of(pool, account, now)
            for state in STATES:
                yield (pool.name, account.name, state), state == current

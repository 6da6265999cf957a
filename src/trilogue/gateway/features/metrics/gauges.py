"""The metrics of a worker that are read when they are asked for: requests, connections, accounts, stores, log,
captures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from trilogue.base.clock import steady_time
from trilogue.gateway.endpoints.generate import ActiveRequests
from trilogue.gateway.features.approvals.approvals import Approvals
from trilogue.gateway.features.capture.worker_capture import DROP_REASONS, WorkerCapture
from trilogue.gateway.features.cluster.status import LinkHealth, LinkStatus
from trilogue.gateway.features.cluster.worker import WorkerCluster
from trilogue.gateway.features.metrics import families
from trilogue.gateway.features.metrics.worker_metrics import WorkerMetrics
from trilogue.gateway.features.usage.observer import UsageObserver
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.log.output import dropped_lines
from trilogue.routing.pool.pools import STATES, state_of
from trilogue.storage.database import StoreHealth

PICO_DOLLAR = 10**12
"""costs are integers of that part of a dollar"""

Sample = tuple[tuple[str, ...], float]
Health = Callable[[], Mapping[str, StoreHealth]]


def register_gauges(
    metrics: WorkerMetrics,
    running: ActiveRequests,
    gateway: Callable[[], Gateway],
    health: Health,
    approvals: Approvals,
) -> None:
    """Register what this worker knows. `gateway`: returns the one in use. `health`: returns that of its stores."""
    metrics.register(families.IN_FLIGHT, lambda: [((), len(running.requests))])
    metrics.register(families.OPEN_STREAMS, lambda: [((), _open_streams(running))])
    metrics.register(families.CONNECTIONS, lambda: _connections(gateway()))
    metrics.register(families.ACCOUNT_STATE, lambda: _account_states(gateway()))
    metrics.register(families.STORE_FAILING, lambda: _stores(health(), lambda health: health.failing))
    metrics.register(families.STORE_WAITING, lambda: _stores(health(), lambda health: health.waiting))
    metrics.register(families.STORE_FAILURES, lambda: _stores(health(), lambda health: health.failures))
    metrics.register(families.APPROVALS, lambda: [((), len(approvals))])
    metrics.register(families.LOG_DROPPED, lambda: [((), dropped_lines())])


def register_cluster(metrics: WorkerMetrics, cluster: WorkerCluster) -> None:
    """Register what is known of the cluster. Only the process that runs the link counts what it sends and receives."""

    def shared(read: Callable[[LinkStatus], float]) -> Callable[[], list[Sample]]:
        return lambda: [((), float(read(status)))] if (status := cluster.status) is not None else []

    def counted(read: Callable[[LinkHealth], list[Sample]]) -> Callable[[], list[Sample]]:
        return lambda: read(health) if (health := cluster.health) is not None else []

    metrics.register(families.CLUSTER_CONNECTED, shared(lambda status: status.connected))
    metrics.register(families.CLUSTER_NODES, shared(lambda _: len(cluster.running())))
    metrics.register(families.CLUSTER_LAG, shared(lambda status: status.lag))
    metrics.register(families.CLUSTER_OFFSET, shared(lambda status: status.offset))
    metrics.register(
        families.CLUSTER_CHANGES,
        counted(lambda health: [(("sent",), float(health.sent)), (("received",), float(health.received))]),
    )
    metrics.register(families.CLUSTER_RECONNECTS, counted(lambda health: [((), float(health.reconnects))]))


def register_usage(metrics: WorkerMetrics, usage: UsageObserver) -> None:
    """Register what this worker has counted of costs."""
    metrics.register(families.COST, lambda: [(names, cost / PICO_DOLLAR) for names, (cost, _) in usage.costs()])
    metrics.register(families.UNPRICED, lambda: [(names, unknown) for names, (_, unknown) in usage.costs() if unknown])
    metrics.register(families.USAGE_FAILURES, lambda: [((), usage.failures)])


def register_capture(metrics: WorkerMetrics, capture: WorkerCapture) -> None:
    """Register what is known of captures."""
    metrics.register(families.CAPTURES_WRITTEN, lambda: [((), capture.written)])
    metrics.register(
        families.CAPTURES_DROPPED, lambda: [((reason,), capture.dropped[reason]) for reason in DROP_REASONS]
    )
    metrics.register(families.CAPTURE_ACTIVE, lambda: [((), int(capture.is_on))])
    metrics.register(families.CAPTURE_FAILING, lambda: [((), int(bool(capture.last_error)))])
    metrics.register(families.CAPTURE_MEMORY, lambda: [((), capture.memory.used)])


def _open_streams(running: ActiveRequests) -> int:
    return sum(context.record.stream and context.responder.started for context in running.requests)


def _connections(gateway: Gateway) -> list[Sample]:
    used, idle = gateway.upstreams.connections()
    return [(("active",), used), (("idle",), idle)]


def _stores(health: Mapping[str, StoreHealth], read: Callable[[StoreHealth], float]) -> list[Sample]:
    return [((name,), float(read(one))) for name, one in health.items()]


def _account_states(gateway: Gateway) -> Iterator[Sample]:
    now = steady_time()
    for pool in gateway.upstreams.pools.pools.values():
        for account in pool.accounts:
            current = state_of(pool, account, now)
            for state in STATES:
                yield (pool.name, account.name, state), state == current

"""The part of the admin interface that shows the metrics of all workers to Prometheus."""

from __future__ import annotations

from trilogue.gateway.admin.routes import AdminCall, AdminError, AdminRoute, RawReply, Reply
from trilogue.gateway.admin.settings import AdminRole
from trilogue.gateway.admin.worker_group import OtherWorkers
from trilogue.gateway.features.metrics.exposition import content_type, exposition
from trilogue.gateway.features.metrics.worker_metrics import WorkerMetrics


def routes(metrics: WorkerMetrics | None, workers: OtherWorkers) -> tuple[AdminRoute, ...]:
    """Return the route of metrics, and let other workers ask for those of this one."""
    if metrics is None:
        return (AdminRoute("GET", "metrics", _off, AdminRole.VIEWER),)
    workers.register("metrics", lambda _: metrics.for_others())
    return (AdminRoute("GET", "metrics", _MetricsPart(metrics, workers).handle, AdminRole.VIEWER),)


async def _off(_: AdminCall) -> Reply:
    raise AdminError(404, "metrics are off (admin.metrics)", "not_found")


class _MetricsPart:
    """The metrics of this worker and of all others."""

    def __init__(self, metrics: WorkerMetrics, workers: OtherWorkers) -> None:
        self._metrics = metrics
        self._workers = workers

    async def handle(self, call: AdminCall) -> Reply:
        """Return the metrics of all workers, in the format that the client prefers."""
        samples = self._metrics.of_all(await self._workers.ask("metrics"))
        kind = content_type(call.request.headers.get("accept", ""))
        return RawReply(kind, exposition(samples, kind))

"""All routes of the admin interface, in the order in which they are looked at."""

from __future__ import annotations

from collections.abc import Iterator

from trilogue.app.worker import Worker
from trilogue.gateway.admin import audit, sign_on_pages
from trilogue.gateway.admin.console import pages as console_pages
from trilogue.gateway.admin.routes import AdminContext, AdminRoute
from trilogue.gateway.features import accounts, client_keys
from trilogue.gateway.features.approvals import routes as approvals
from trilogue.gateway.features.capture import routes as captures
from trilogue.gateway.features.capture.worker_capture import WorkerCapture
from trilogue.gateway.features.cluster import routes as nodes
from trilogue.gateway.features.explain import decisions, dry_run, routing
from trilogue.gateway.features.explain import routes as requests
from trilogue.gateway.features.explain.history import KnownRequests
from trilogue.gateway.features.metrics import routes as metrics_page
from trilogue.gateway.features.metrics.worker_metrics import WorkerMetrics
from trilogue.gateway.features.usage import routes as usage_routes
from trilogue.gateway.features.usage.observer import UsageObserver


def admin_routes(
    context: AdminContext,
    worker: Worker,
    metrics: WorkerMetrics | None,
    usage: UsageObserver | None,
    capture: WorkerCapture | None,
) -> Iterator[AdminRoute]:
    """Yield all routes. `metrics`, `usage`, `capture`: None if they are off."""
    workers, known = context.workers, KnownRequests(context.running, worker.history)
    yield from accounts.routes()
    yield from approvals.routes(worker.approvals, workers)
    yield from client_keys.routes()
    yield from audit.routes()
    yield from requests.routes(context, known)
    yield from decisions.routes(known, workers)
    yield from metrics_page.routes(metrics, workers)
    yield from captures.routes(capture, workers)
    yield from routing.routes()
    yield from dry_run.routes()
    yield from usage_routes.routes(usage)
    yield from sign_on_pages.routes()
    yield from nodes.routes(worker.cluster)
    yield from console_pages.routes()

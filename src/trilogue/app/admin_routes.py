"""All parts of the admin interface, in the order in which their routes are looked at."""

from __future__ import annotations

from trilogue.gateway.admin import audit, sign_on_pages
from trilogue.gateway.admin.console import pages as console_pages
from trilogue.gateway.admin.routes import Part
from trilogue.gateway.features import accounts, client_keys
from trilogue.gateway.features.approvals import routes as approvals
from trilogue.gateway.features.capture import routes as captures
from trilogue.gateway.features.cluster import routes as nodes
from trilogue.gateway.features.explain import decisions, dry_run
from trilogue.gateway.features.explain import routes as requests
from trilogue.gateway.features.explain import routing as routing_pages
from trilogue.gateway.features.metrics import routes as metrics_page
from trilogue.gateway.features.usage import routes as usage

PARTS: tuple[Part, ...] = (
    accounts.routes,
    approvals.routes,
    client_keys.routes,
    audit.routes,
    requests.routes,
    decisions.routes,
    metrics_page.routes,
    captures.routes,
    routing_pages.routes,
    dry_run.routes,
    usage.routes,
    sign_on_pages.routes,
    nodes.routes,
    console_pages.routes,
)

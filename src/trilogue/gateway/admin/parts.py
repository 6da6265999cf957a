"""All parts of the admin interface, in the order in which their routes are looked at."""

from __future__ import annotations

from trilogue.gateway.admin import (
    accounts,
    approvals,
    audit,
    captures,
    client_keys,
    console_pages,
    decisions,
    dry_run,
    metrics_page,
    nodes,
    requests,
    routing_pages,
    sign_on_pages,
    usage,
)
from trilogue.gateway.admin.interface import Part

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

"""The part of the admin interface that shows the nodes of the cluster."""

from __future__ import annotations

from trilogue.gateway.admin.routes import AdminCall, AdminRoute, Reply
from trilogue.gateway.admin.settings import AdminRole
from trilogue.gateway.features.cluster.member import ClusterMember
from trilogue.gateway.features.cluster.nodes import GONE
from trilogue.gateway.features.cluster.status import LinkStatus, NodeRecord
from trilogue.gateway.features.cluster.worker import WorkerCluster
from trilogue.model import Json

NO_LINK = "the link is not running"


def routes(cluster: WorkerCluster) -> tuple[AdminRoute, ...]:
    """Return the route of nodes. The process that runs the link writes down what it knows, so each can respond."""

    async def handle(_: AdminCall) -> Reply:
        return _nodes(cluster.member)

    return (AdminRoute("GET", "nodes", handle, AdminRole.VIEWER),)


def _nodes(member: ClusterMember | None) -> Reply:
    if member is None:
        return {"cluster": None, "nodes": []}
    status = member.status or LinkStatus(node=member.node.id, name=member.node.name, server=member.server.name, at=0.0)
    now = member.clock.now()
    nodes = sorted((one for one in status.nodes if one.id != GONE), key=lambda one: (one.is_gone(now), one.name))
    return {
        "cluster": {
            "server": status.server,
            "connected": status.connected,
            "reason": status.reason if status.at else NO_LINK,
            "since": round(status.since, 3),
            "node": status.node,
        },
        "nodes": [_node(one, now) for one in nodes],
    }


def _node(record: NodeRecord, now: float) -> Json:
    state = "left" if record.left else "gone" if record.is_gone(now) else "running"
    return {
        "id": record.id,
        "name": record.name,
        "state": state,
        "version": record.version,
        "workers": record.workers,
        "running": 0 if state != "running" else record.running,
        "requests": record.requests,
        "load": record.load,
        "lag_seconds": round(record.lag, 4),
        "clock_offset_seconds": round(record.offset, 3),
        "started": round(record.started, 3),
        "reported": round(record.at, 3),
        "reported_seconds_ago": max(0.0, round(now - record.at, 1)),
    }

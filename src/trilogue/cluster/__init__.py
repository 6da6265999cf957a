"""Several machines that behave as one gateway: what they share through Redis, beside the path of requests.

    member = ClusterMember(RedisServer(url, prefix), place, store, facts)   # in the worker, after the fork
    member.tick()             # several times a second: one process of the machine runs the link, in a thread
    member.status             # how the link is doing, and which nodes there are
    member.clock.now()        # the common time
    member.close()

Decisions are made from the local state. The link copies between that and Redis; no request waits for it.
"""

from trilogue.cluster.clock import ClusterClock
from trilogue.cluster.identity import NodeIdentity
from trilogue.cluster.link import Link, LinkPart
from trilogue.cluster.member import ClusterMember
from trilogue.cluster.messages import Message
from trilogue.cluster.nodes import NodeFacts
from trilogue.cluster.server import ClusterUnavailable, RedisServer, faults, reason_of
from trilogue.cluster.status import LinkHealth, LinkStatus, NodeRecord

__all__ = [
    "ClusterClock",
    "ClusterMember",
    "ClusterUnavailable",
    "Link",
    "LinkHealth",
    "LinkPart",
    "LinkStatus",
    "Message",
    "NodeFacts",
    "NodeIdentity",
    "NodeRecord",
    "RedisServer",
    "faults",
    "reason_of",
]

"""Several machines that behave as one gateway: what they share through Redis, beside the path of requests.

    member = ClusterMember(RedisServer(url, prefix), place, store, facts)   # in the worker, after the fork
    member.tick()             # several times a second: one process of the machine runs the link, in a thread
    member.status             # how the link is doing, and which nodes there are
    member.clock.now()        # the common time
    member.close()

Decisions are made from the local state. The link copies between that and Redis; no request waits for it.
"""

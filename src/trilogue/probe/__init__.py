"""Asks a live server and judges what comes: requests of one protocol, plain and streamed, and the linter's rules.

`client` sends a request and notes when each piece arrives, `asks` has the requests, `live_rules` the rules that only
show on the wire, and `judge` puts them together.
"""

from trilogue.probe.asks import ProbeRequest, asks
from trilogue.probe.client import ProbedServer, Received, ask_server
from trilogue.probe.judge import ProbeResult, judge, probe_server, refusal
from trilogue.probe.live_rules import LIVE_RULES, live_rules_table

__all__ = [
    "LIVE_RULES",
    "ProbeRequest",
    "ProbeResult",
    "ProbedServer",
    "Received",
    "ask_server",
    "asks",
    "judge",
    "live_rules_table",
    "probe_server",
    "refusal",
]

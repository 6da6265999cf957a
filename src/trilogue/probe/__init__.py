"""Asks a live server and judges what comes: requests of one protocol, plain and streamed, and the linter's rules.

`client` sends a request and notes when each piece arrives, `asks` has the requests, `live_rules` the rules that only
show on the wire, and `judge` puts them together.
"""

from trilogue.probe.asks import Ask, asks
from trilogue.probe.client import Received, Server, ask_server
from trilogue.probe.judge import Judged, judge, probe_server
from trilogue.probe.live_rules import LIVE_RULES, live_rules_table

__all__ = [
    "LIVE_RULES",
    "Ask",
    "Judged",
    "Received",
    "Server",
    "ask_server",
    "asks",
    "judge",
    "live_rules_table",
    "probe_server",
]

"""All metrics of the gateway: names, kinds, labels and meaning. docs/metrics.md has the same list, and a test compares.

Names and units follow https://prometheus.io/docs/practices/naming. Values of labels come from the configuration, from
closed lists in the code, or are limited in number: clients cannot create series at will.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Kind(StrEnum):
    """What a metric is, by the name of its type in the exposition formats."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"
    """always 1: its labels are the information"""


class Family(Struct, frozen=True, kw_only=True):
    """A metric with all its series. `unit`: the last part of the name, if that is a unit.

    `shared`: a gauge that has the same value in all workers, because they share what it shows; others are added up.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    buckets: tuple[float, ...] = ()
    shared: bool = False

    @property
    def outlives_worker(self) -> bool:
        """Whether the values of a worker still count when it has ended."""
        return self.kind in (Kind.COUNTER, Kind.HISTOGRAM)


DURATIONS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0)
"""Small models respond in a fraction of a second; agents let large ones think for minutes."""
FIRST_TOKENS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 20.0, 60.0)
VERDICTS = (0.0001, 0.001, 0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Rules decide in microseconds, other models in seconds, people in minutes."""
LAGS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""The event loop's timers are exact to a millisecond, so smaller lags cannot be measured."""

REQUESTS = "trilogue_requests_total"
REQUEST_DURATION = "trilogue_request_duration_seconds"
FIRST_TOKEN = "trilogue_time_to_first_token_seconds"
TOKENS = "trilogue_tokens_total"
LOSSES = "trilogue_losses_total"
REQUEST_FAILURES = "trilogue_request_failures_total"
ATTEMPT_FAILURES = "trilogue_attempt_failures_total"
RETRIES = "trilogue_retries_total"
POLICY_VERDICTS = "trilogue_policy_verdicts_total"
POLICY_DURATION = "trilogue_policy_duration_seconds"
APPROVALS = "trilogue_approvals_waiting"
IN_FLIGHT = "trilogue_requests_in_flight"
OPEN_STREAMS = "trilogue_open_streams"
CONNECTIONS = "trilogue_upstream_connections"
ACCOUNT_STATE = "trilogue_account_state"
LAG = "trilogue_event_loop_lag_seconds"
STORE_FAILING = "trilogue_store_failing"
STORE_WAITING = "trilogue_store_writes_waiting"
STORE_FAILURES = "trilogue_store_failures_total"
SPANS = "trilogue_trace_spans_total"
COST = "trilogue_cost_dollars_total"
UNPRICED = "trilogue_unpriced_requests_total"
USAGE_FAILURES = "trilogue_usage_store_failures_total"
LOG_DROPPED = "trilogue_log_lines_dropped_total"
CAPTURES_WRITTEN = "trilogue_captures_written_total"
CAPTURES_DROPPED = "trilogue_captures_dropped_total"
CAPTURE_ACTIVE = "trilogue_capture_active"
CAPTURE_FAILING = "trilogue_capture_failing"
CAPTURE_MEMORY = "trilogue_capture_memory_bytes"
CLUSTER_CONNECTED = "trilogue_cluster_connected"
CLUSTER_NODES = "trilogue_cluster_nodes"
CLUSTER_LAG = "trilogue_cluster_lag_seconds"
CLUSTER_OFFSET = "trilogue_cluster_clock_offset_seconds"
CLUSTER_CHANGES = "trilogue_cluster_changes_total"
CLUSTER_RECONNECTS = "trilogue_cluster_reconnects_total"
WORKERS = "trilogue_workers"
WORKERS_EXPECTED = "trilogue_workers_expected"
BUILD = "trilogue_build_info"

_ROUTE = ("client_protocol", "upstream_protocol", "provider", "model")

_ALL = (
    Family(
        name=REQUESTS,
        kind=Kind.COUNTER,
        help="Requests of clients that have ended, by the HTTP status of the response (499: the client disconnected).",
        labels=("endpoint", *_ROUTE, "code"),
    ),
    Family(
        name=REQUEST_DURATION,
        kind=Kind.HISTOGRAM,
        help="Time from the first byte of a request to the end of its response.",
        labels=("endpoint", *_ROUTE),
        unit="seconds",
        buckets=DURATIONS,
    ),
    Family(
        name=FIRST_TOKEN,
        kind=Kind.HISTOGRAM,
        help="Time from the first byte of a request to the first content of its stream.",
        labels=_ROUTE,
        unit="seconds",
        buckets=FIRST_TOKENS,
    ),
    Family(
        name=TOKENS,
        kind=Kind.COUNTER,
        help="Tokens that upstreams reported, each counted once: input excludes cached, output excludes reasoning.",
        labels=("provider", "model", "kind"),
    ),
    Family(
        name=LOSSES,
        kind=Kind.COUNTER,
        help="Requests in which a loss was declared, by the code of the loss.",
        labels=("client_protocol", "upstream_protocol", "code"),
    ),
    Family(
        name=REQUEST_FAILURES,
        kind=Kind.COUNTER,
        help="Requests that ended with an error, also inside a stream with status 200, by kind.",
        labels=("client_protocol", "provider", "kind"),
    ),
    Family(
        name=ATTEMPT_FAILURES,
        kind=Kind.COUNTER,
        help="Attempts that failed, by account and by what the failure meant.",
        labels=("provider", "account", "reason"),
    ),
    Family(
        name=RETRIES,
        kind=Kind.COUNTER,
        help="Attempts that were made because an earlier attempt of the same request had failed at this provider.",
        labels=("provider", "reason"),
    ),
    Family(
        name=POLICY_VERDICTS,
        kind=Kind.COUNTER,
        help="Decisions of policies, by what was judged (request, block, flowing text, end) and by the verdict.",
        labels=("policy", "stage", "verdict"),
    ),
    Family(
        name=POLICY_DURATION,
        kind=Kind.HISTOGRAM,
        help="Time that policies took to judge a request or a block, with the answers they waited for.",
        labels=("policy",),
        unit="seconds",
        buckets=VERDICTS,
    ),
    Family(name=APPROVALS, kind=Kind.GAUGE, help="Tool calls that wait until a person approves them."),
    Family(name=IN_FLIGHT, kind=Kind.GAUGE, help="Requests of clients that are running."),
    Family(name=OPEN_STREAMS, kind=Kind.GAUGE, help="Streams that clients are receiving."),
    Family(
        name=CONNECTIONS,
        kind=Kind.GAUGE,
        help="Connections to upstreams of the current configuration.",
        labels=("state",),
    ),
    Family(
        name=ACCOUNT_STATE,
        kind=Kind.GAUGE,
        help="1 for the state that an account is in, 0 for the others.",
        labels=("provider", "account", "state"),
        shared=True,
    ),
    Family(
        name=LAG,
        kind=Kind.HISTOGRAM,
        help="How late the event loops of the workers run a timer, measured ten times per second.",
        unit="seconds",
        buckets=LAGS,
    ),
    Family(
        name=COST,
        kind=Kind.COUNTER,
        help="Cost in US dollars of requests whose cost is known.",
        labels=("provider", "model"),
    ),
    Family(
        name=UNPRICED,
        kind=Kind.COUNTER,
        help="Requests whose cost is unknown, because the price is, or what they used.",
        labels=("provider", "model"),
    ),
    Family(
        name=USAGE_FAILURES,
        kind=Kind.COUNTER,
        help="How often usage could not be stored. It is kept and tried again every second.",
    ),
    Family(
        name=LOG_DROPPED,
        kind=Kind.COUNTER,
        help="Lines of the log that were lost because they could not be written.",
    ),
    Family(name=CAPTURES_WRITTEN, kind=Kind.COUNTER, help="Captures of requests that were written."),
    Family(
        name=CAPTURES_DROPPED,
        kind=Kind.COUNTER,
        help="Captures that were lost because of the disk, because they took too much memory, or for another reason.",
        labels=("reason",),
    ),
    Family(name=CAPTURE_ACTIVE, kind=Kind.GAUGE, help="Workers that capture requests now."),
    Family(name=CAPTURE_FAILING, kind=Kind.GAUGE, help="Workers whose last capture was lost."),
    Family(
        name=CAPTURE_MEMORY,
        kind=Kind.GAUGE,
        help="Memory that captures of running requests take, and those that wait to be written.",
        unit="bytes",
    ),
    Family(
        name=STORE_FAILING,
        kind=Kind.GAUGE,
        help="Workers whose last use of a store failed.",
        labels=("store",),
    ),
    Family(
        name=STORE_WAITING,
        kind=Kind.GAUGE,
        help="Writes to a store that are not done yet.",
        labels=("store",),
    ),
    Family(
        name=STORE_FAILURES,
        kind=Kind.COUNTER,
        help="Reads and writes of a store that failed, or were dropped because too many waited.",
        labels=("store",),
    ),
    Family(
        name=SPANS,
        kind=Kind.COUNTER,
        help="Spans of traces that the collector has taken, or that were dropped because it did not.",
        labels=("result",),
    ),
    Family(
        name=CLUSTER_CONNECTED,
        kind=Kind.GAUGE,
        help="1 if this machine is connected to the Redis server of its cluster; 0 if it goes on alone.",
        shared=True,
    ),
    Family(
        name=CLUSTER_NODES,
        kind=Kind.GAUGE,
        help="Nodes of the cluster that are running, as far as this machine knows.",
        shared=True,
    ),
    Family(
        name=CLUSTER_LAG,
        kind=Kind.GAUGE,
        help="Time that the latest change of another node took from Redis to this machine.",
        unit="seconds",
        shared=True,
    ),
    Family(
        name=CLUSTER_OFFSET,
        kind=Kind.GAUGE,
        help="How far the clock of Redis is ahead of this machine's.",
        unit="seconds",
        shared=True,
    ),
    Family(
        name=CLUSTER_CHANGES,
        kind=Kind.COUNTER,
        help="Changes of the state of accounts that were sent to other nodes, or received from them.",
        labels=("direction",),
    ),
    Family(
        name=CLUSTER_RECONNECTS,
        kind=Kind.COUNTER,
        help="How often the connection to the Redis server of the cluster was lost.",
    ),
    Family(name=WORKERS, kind=Kind.GAUGE, help="Workers whose current values are part of this response."),
    Family(name=WORKERS_EXPECTED, kind=Kind.GAUGE, help="Workers that the gateway was started with.", shared=True),
    Family(
        name=BUILD,
        kind=Kind.INFO,
        help="The versions of Trilogue and Python.",
        labels=("version", "python"),
        shared=True,
    ),
)

FAMILIES = {family.name: family for family in _ALL}


def metrics_table() -> str:
    """Return all metrics as a table in Markdown, for docs/metrics.md."""
    lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for family in FAMILIES.values():
        labels = ", ".join(f"`{label}`" for label in family.labels)
        lines.append(f"| `{family.name}` | {family.kind.value} | {labels} | {family.help} |")
    return "\n".join(lines)

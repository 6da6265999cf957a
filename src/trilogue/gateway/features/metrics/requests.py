"""Counts requests: one call per request, when it is over, which adds to one object per combination of labels.

A model has its own series if the configuration names it, or if an upstream has responded for it; the number of the
latter is limited. All others are counted as `other`, because clients can send any name.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator

from trilogue.gateway.features.metrics import families
from trilogue.gateway.features.metrics.families import DURATIONS, FIRST_TOKENS, VERDICTS
from trilogue.gateway.features.metrics.worker_files import Key, Samples
from trilogue.gateway.observer import Observer
from trilogue.gateway.record import INTERNAL, RequestRecord
from trilogue.policies import Record
from trilogue.protocols.registry import CODECS
from trilogue.routing.pool.decision import Decision

MAX_MODELS = 100
"""Models with their own series that the configuration does not name."""
MAX_KNOWN = 4096
"""Combinations of facts about a request whose series is remembered."""
MAX_POLICIES = 100
OTHER = "other"
NONE = "none"
"""for requests that were not sent to any provider"""

_TIMED = ("request", "block")
"""what policies judge at once; flowing text takes as long as it flows"""
Labels = tuple[str, str, str, str, str, str]
"""endpoint, client protocol, upstream protocol, provider, model, status"""


class Series:
    """The counts of all requests with the same labels. `output` includes `reasoning`, as upstreams report it."""

    __slots__ = (
        "cache_read",
        "cache_write",
        "duration_sum",
        "durations",
        "first_sum",
        "firsts",
        "input",
        "losses",
        "output",
        "reasoning",
    )

    def __init__(self) -> None:
        self.durations = [0] * (len(DURATIONS) + 1)
        self.duration_sum = 0.0
        self.firsts = [0] * (len(FIRST_TOKENS) + 1)
        self.first_sum = 0.0
        self.input = self.cache_read = self.cache_write = self.output = self.reasoning = 0
        self.losses: dict[str, int] = defaultdict(int)


class RequestMetrics(Observer):
    """Counts requests by protocol, provider, model and status."""

    def __init__(self) -> None:
        self._series: dict[Labels, Series] = {}
        self._known: dict[tuple[str, str, str, str, str, int], Series] = {}
        """by path, protocols, provider, model and status as the record has them"""
        self._configured: frozenset[tuple[str, str]] = frozenset()
        self._seen: set[tuple[str, str]] = set()
        """providers and models that are not configured, and for which an upstream has responded"""
        self._counts: dict[Key, int] = defaultdict(int)
        self._policies: dict[str, list[float]] = {}
        """the durations of the verdicts of each policy: counts by bucket, and their sum"""

    def configure(self, models: Iterable[tuple[str, str]]) -> None:
        """Take the providers and models that the configuration names. They always have their own series."""
        self._configured = frozenset(models)

    def request_ended(self, record: RequestRecord) -> None:
        """Count a request. This is most of what metrics cost."""
        facts = (
            record.path,
            record.client,
            record.upstream,
            record.provider,
            record.upstream_model,
            record.status,
        )
        try:
            series = self._known[facts]
        except KeyError:
            series = self._find(record, facts)
        seconds = record.ended_at - record.began_at
        series.duration_sum += seconds
        series.durations[bisect_left(DURATIONS, seconds)] += 1
        if record.content_at is not None:
            seconds = record.content_at - record.began_at
            series.first_sum += seconds
            series.firsts[bisect_left(FIRST_TOKENS, seconds)] += 1
        usage = record.usage
        if usage is not None:
            series.input += usage.fresh
            series.output += usage.output
            if usage.cache_read:
                series.cache_read += usage.cache_read
            if usage.cache_write:
                series.cache_write += usage.cache_write
            if usage.reasoning:
                series.reasoning += usage.reasoning
        if record.loss_codes:
            for code in record.loss_codes:
                series.losses[code] += 1
        if record.policies:
            self._count_policies(record.policies)
        if record.error is not None:
            self._count_failure(record)
        elif record.decision is not None and len(record.decision.attempts) > 1:
            self._count_attempts(record.decision)

    def samples(self) -> Samples:
        """Return all counts."""
        found: dict[Key, list[float]] = {}
        for labels, series in self._series.items():
            for key, values in _samples_of(labels, series):
                before = found.get(key)
                found[key] = values if before is None else [a + b for a, b in zip(before, values, strict=True)]
        durations: Samples = {(families.POLICY_DURATION, (name,)): list(row) for name, row in self._policies.items()}
        return {**found, **durations, **{key: [count] for key, count in self._counts.items()}}

    def _find(self, record: RequestRecord, facts: tuple[str, str, str, str, str, int]) -> Series:
        """Return the series of a request, and remember it unless its model may get a series of its own later."""
        model = self._model(record)
        labels = (
            endpoint_of(record.path),
            record.client,
            record.upstream or NONE,
            record.provider or NONE,
            model,
            str(record.status),
        )
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = Series()
        # Paths with ids would fill the memory of those that come again.
        if model != OTHER and (record.upstream_model or not record.provider) and len(self._known) < MAX_KNOWN:
            self._known[facts] = series
        return series

    def _model(self, record: RequestRecord) -> str:
        if not record.provider:
            return NONE
        model = (record.provider, record.upstream_model)
        if model in self._configured or model in self._seen or not record.upstream_model:
            return record.upstream_model or NONE
        if record.status < 400 and record.error is None and len(self._seen) < MAX_MODELS:
            self._seen.add(model)
            return record.upstream_model
        return OTHER

    def _count_failure(self, record: RequestRecord) -> None:
        kind = record.failure.kind.value if record.failure is not None else "client_gone"
        self._counts[families.REQUEST_FAILURES, (record.client, record.provider or NONE, kind)] += 1
        if record.decision is not None:
            self._count_attempts(record.decision)

    def _count_policies(self, records: Iterable[Record]) -> None:
        for record in records:
            # Policies are code of users, which could change their names.
            name = record.policy
            if name not in self._policies:
                name = name if len(self._policies) < MAX_POLICIES else OTHER
                self._policies.setdefault(name, [0.0] * (len(VERDICTS) + 2))
            self._counts[families.POLICY_VERDICTS, (name, record.stage, record.verdict)] += 1
            if record.stage in _TIMED:
                durations = self._policies[name]
                durations[bisect_left(VERDICTS, record.seconds)] += 1
                durations[-1] += record.seconds

    def _count_attempts(self, decision: Decision) -> None:
        """Count the failed attempts of a request, and those that followed them."""
        failed = provider = ""
        for attempt in decision.attempts:
            if failed:
                self._counts[families.RETRIES, (provider, failed)] += 1
            failed, provider = attempt.why, attempt.provider
            if failed:
                self._counts[families.ATTEMPT_FAILURES, (provider, attempt.account, failed)] += 1


def _samples_of(labels: Labels, series: Series) -> Iterator[tuple[Key, list[float]]]:
    client, upstream, provider, model = labels[1:-1]
    yield (families.REQUESTS, labels), [sum(series.durations)]
    yield (families.REQUEST_DURATION, labels[:-1]), [*series.durations, series.duration_sum]
    if any(series.firsts):
        yield (families.FIRST_TOKEN, (client, upstream, provider, model)), [*series.firsts, series.first_sum]
    for kind, tokens in (
        ("input", series.input),
        ("cache_read", series.cache_read),
        ("cache_write", series.cache_write),
        ("output", series.output - series.reasoning),
        ("reasoning", series.reasoning),
    ):
        if tokens:
            yield (families.TOKENS, (provider, model, kind)), [tokens]
    for code, count in series.losses.items():
        yield (families.LOSSES, (client, upstream, code)), [count]


def endpoint_of(path: str) -> str:
    """Return the kind of an endpoint by its path, from a closed list."""
    if path.endswith(INTERNAL):
        return "internal"
    for one in CODECS.values():
        endpoint = one.endpoint
        if path == endpoint.path:
            return "generate"
        if endpoint.counting is not None and path == endpoint.counting.path:
            return "count_tokens"
        head = endpoint.in_url.read(path) if endpoint.in_url is not None else None
        if head is not None:
            return "count_tokens" if head.counts else "generate"
        for other in endpoint.others:
            if path == other.path or (other.objects and path.startswith(f"{other.path}/")):
                return other.label
    return "models" if path == "/models" or path.startswith("/models/") else OTHER

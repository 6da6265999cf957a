"""The text that Prometheus reads, in its own format and in OpenMetrics.

https://prometheus.io/docs/instrumenting/exposition_formats and
https://prometheus.io/docs/specs/om/open_metrics_spec
"""

from __future__ import annotations

from collections.abc import Iterator

from trilogue.gateway.features.metrics.families import FAMILIES, Family, Kind
from trilogue.gateway.features.metrics.worker_files import Samples, Values

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def content_type(accept: str) -> str:
    """Return the format that a client prefers by its Accept header; Prometheus' own if it has no preference."""
    weights = dict.fromkeys(("application/openmetrics-text", "text/plain"), 0.0)
    for one in accept.split(","):
        name, *parameters = [part.strip() for part in one.lower().split(";")]
        if name in weights:
            weights[name] = max(weights[name], _weight(parameters))
    return OPENMETRICS if weights["application/openmetrics-text"] > weights["text/plain"] else PROMETHEUS


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def exposition(samples: Samples, kind: str) -> bytes:
    """Return all samples as text. `kind`: one of the two content types."""
    by_family: dict[str, list[tuple[tuple[str, ...], Values]]] = {}
    for (name, labels), values in samples.items():
        by_family.setdefault(name, []).append((labels, values))
    lines: list[str] = []
    for family in FAMILIES.values():
        found = by_family.get(family.name)
        if found:
            lines += _metadata(family, kind)
            lines += [line for labels, values in sorted(found) for line in _lines(family, labels, values)]
    if kind == OPENMETRICS:
        lines.append("# EOF")
    # A name that a client chose may have half a surrogate pair, which is not valid UTF-8.
    return "\n".join([*lines, ""]).encode("utf-8", "backslashreplace")


def _metadata(family: Family, kind: str) -> Iterator[str]:
    name, kind_name = family.name, family.kind.value
    if kind == OPENMETRICS:
        name = name.removesuffix("_total") if family.kind is Kind.COUNTER else name
        name = name.removesuffix("_info") if family.kind is Kind.INFO else name
    elif family.kind is Kind.INFO:
        kind_name = Kind.GAUGE.value
    yield f"# HELP {name} {family.help}"
    yield f"# TYPE {name} {kind_name}"
    if kind == OPENMETRICS and family.unit:
        yield f"# UNIT {name} {family.unit}"


def _lines(family: Family, labels: tuple[str, ...], values: Values) -> Iterator[str]:
    pairs = [f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(family.labels, labels, strict=True)]
    if family.kind is not Kind.HISTOGRAM:
        yield f"{family.name}{_braced(pairs)} {_number(values[0])}"
        return
    total = 0.0
    for limit, count in zip([*(repr(limit) for limit in family.buckets), "+Inf"], values[:-1], strict=True):
        total += count
        bucket = _braced([*pairs, f'le="{limit}"'])
        yield f"{family.name}_bucket{bucket} {_number(total)}"
    yield f"{family.name}_count{_braced(pairs)} {_number(total)}"
    yield f"{family.name}_sum{_braced(pairs)} {_number(values[-1])}"


def _braced(pairs: list[str]) -> str:
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))

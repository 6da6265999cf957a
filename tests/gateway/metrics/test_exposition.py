"""The text of the metrics: valid in both formats, by independent parsers, whatever the names in it."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

from trilogue.gateway.features.metrics import families
from trilogue.gateway.features.metrics.exposition import OPENMETRICS, PROMETHEUS, content_type, exposition
from trilogue.gateway.features.metrics.families import FAMILIES, Kind
from trilogue.gateway.features.metrics.worker_files import Samples

PROMTOOL = shutil.which("promtool")
EVIL = 'a\\b"c\nd\ud800é{}=,'


def one_of_each() -> Samples:
    """A sample of every metric."""
    found: Samples = {}
    for place, family in enumerate(FAMILIES.values(), 1):
        number = 1 if family.kind is Kind.INFO else place
        labels = tuple(f"{label}-{number}" for label in family.labels)
        histogram = family.kind is Kind.HISTOGRAM
        found[family.name, labels] = [*([number] * (len(family.buckets) + 1)), 2.5] if histogram else [number]
    return found


PARSERS: dict[str, Any] = {PROMETHEUS: parse_prometheus, OPENMETRICS: parse_openmetrics}


@pytest.mark.parametrize("kind", PARSERS)
def test_every_metric_can_be_read(kind: str) -> None:
    samples = one_of_each()
    found = {family.name: family for family in PARSERS[kind](exposition(samples, kind).decode())}
    assert len(found) == len(FAMILIES)
    for family in FAMILIES.values():
        short = family.name.removesuffix("_total")
        read = found.get(short) or found.get(family.name) or found[family.name.removesuffix("_info")]
        assert read.documentation == family.help
        assert all(set(sample.labels) - {"le"} == set(family.labels) for sample in read.samples)
        if kind == OPENMETRICS:
            assert (read.type, read.unit) == (family.kind.value, family.unit)


@pytest.mark.parametrize("kind", PARSERS)
def test_histograms_are_cumulative(kind: str) -> None:
    values = [1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0.75]
    text = exposition({(families.LAG, ()): values}, kind).decode()
    (family,) = PARSERS[kind](text)
    samples = {
        (sample.name.removeprefix(families.LAG), sample.labels.get("le")): sample.value for sample in family.samples
    }
    assert samples["_bucket", "0.002"] == 1
    assert samples["_bucket", "2.5"] == 3
    assert samples["_bucket", "+Inf"] == samples["_count", None] == 7
    assert samples["_sum", None] == 0.75


@pytest.mark.parametrize("kind", PARSERS)
def test_names_cannot_forge_samples(kind: str) -> None:
    """Models are named by clients and upstreams."""
    text = exposition({(families.TOKENS, ("up", EVIL, "input")): [5]}, kind).decode()
    (family,) = PARSERS[kind](text)
    (sample,) = family.samples
    assert sample.labels["model"] == EVIL.replace("\ud800", "\\ud800")
    assert sample.value == 5


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_promtool_has_no_objection() -> None:
    """It checks names, units and help texts as well."""
    data = exposition(one_of_each(), PROMETHEUS)
    result = subprocess.run([PROMTOOL or "", "check", "metrics"], input=data, capture_output=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", PROMETHEUS),
        ("*/*", PROMETHEUS),
        ("text/plain", PROMETHEUS),
        ("application/openmetrics-text", OPENMETRICS),
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
            "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            OPENMETRICS,
        ),
        (
            "application/vnd.google.protobuf;encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,"
            "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            OPENMETRICS,
        ),
        ("text/plain;q=0.9, application/openmetrics-text;q=0.1", PROMETHEUS),
        ("application/openmetrics-text;q=0", PROMETHEUS),
        ("application/openmetrics-text;q=x", PROMETHEUS),
        (";;,=;q", PROMETHEUS),
    ],
)
def test_the_format_that_a_client_prefers(accept: str, expected: str) -> None:
    assert content_type(accept) == expected

"""The documentation, the alerts and the dashboard name metrics and labels that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from trilogue.gateway.features.metrics.families import FAMILIES, metrics_table

ROOT = Path(__file__).resolve().parents[3]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "trilogue.json"
PROMTOOL = shutil.which("promtool")
METRIC = re.compile(r"\b(trilogue_\w+?)(?:_bucket|_count|_sum)?(?:\{([^}]*)\}|\b(?!\w))")
GROUPED = re.compile(r"by \(([^)]*)\)")
ADDED = {"le", "job", "instance"}
"""labels of buckets, and those that Prometheus adds"""


def expressions() -> Iterator[tuple[str, str]]:
    """Every query of the alerts and the dashboard, with its place."""
    for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    dashboard = json.loads(DASHBOARD.read_text("utf-8"))
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["definition"]


def problems(expression: str) -> list[str]:
    """Names in a query that do not exist."""
    found = METRIC.findall(expression)
    unknown = [name for name, _ in found if name not in FAMILIES]
    labels = {label for name, _ in found if name in FAMILIES for label in FAMILIES[name].labels} | ADDED
    used = [label for _, inside in found for label in re.findall(r"(\w+)(?:=|!)", inside)]
    used += [label.strip() for group in GROUPED.findall(expression) for label in group.split(",")]
    return unknown + [label for label in used if label not in labels]


def test_the_table_is_current() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    found = re.search(r"<!-- metrics -->\n(.*?)\n<!-- /metrics -->", page, re.DOTALL)
    assert found is not None
    assert found[1] == metrics_table()


def test_every_label_is_documented() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    rows = page[page.index("## Labels") :]
    missing = {label for family in FAMILIES.values() for label in family.labels if f"`{label}`" not in rows}
    assert missing == {"version", "python"}


def test_names_follow_the_conventions() -> None:
    for name, family in FAMILIES.items():
        assert re.fullmatch(r"trilogue_[a-z_]+", name)
        assert name.endswith("_total") is (family.kind.value == "counter")
        assert not family.unit or name.endswith(f"_{family.unit}")
        assert bool(family.buckets) is (family.kind.value == "histogram")
        assert list(family.buckets) == sorted(set(family.buckets))
        assert family.help.endswith(".")


@pytest.mark.parametrize(("place", "expression"), list(expressions()))
def test_queries_name_what_exists(place: str, expression: str) -> None:
    assert METRIC.search(expression) or expression.startswith("up{"), place
    assert problems(expression) == []


def test_a_query_with_a_wrong_name_is_found() -> None:
    assert problems('sum by (modle) (rate(trilogue_requests{stat="1"}[5m]))') == ["trilogue_requests", "stat", "modle"]


def test_every_metric_but_the_version_is_used() -> None:
    text = " ".join(expression for _, expression in expressions())
    unused = {name for name in FAMILIES if not re.search(rf"\b{name}(?:_bucket)?\b", text)}
    assert unused == {"trilogue_build_info"}


def test_the_dashboard_can_be_imported() -> None:
    """Panels do not overlap, have unique ids, and use the selected Prometheus."""
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23
    assert {one["datasource"]["uid"] for panel in panels for one in (panel, *panel["targets"])} == {"${datasource}"}


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_promtool_accepts_the_alerts() -> None:
    result = subprocess.run(
        [PROMTOOL or "", "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr

"""The settings of traces, what the environment may say, and gateways without the packages that traces need."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from trilogue.app.cli.app import app
from trilogue.config.checks import warnings
from trilogue.config.load import parse
from trilogue.errors import ConfigError
from trilogue.gateway.features.tracing.settings import TracingSettings, tracing_problem

ON = TracingSettings(enabled=True)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("", ""),
        ("http://localhost:4318", "http://localhost:4318/v1/traces"),
        ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
        ("https://x.test/otel/v1/traces", "https://x.test/otel/v1/traces"),
    ],
)
def test_the_path_is_added(endpoint: str, url: str) -> None:
    assert TracingSettings(endpoint=endpoint).url == url


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, True),
        ({"OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_SDK_DISABLED": "false"}, True),
        ({"OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_the_environment_can_switch_them_off(environ: dict[str, str], wanted: bool) -> None:
    assert ON.wanted(environ) is wanted
    assert not TracingSettings().wanted(environ)
    assert tracing_problem(ON, environ) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
    ],
)
def test_what_cannot_be_done_is_said(name: str, value: str) -> None:
    problem = tracing_problem(ON, {name: value}) or ""
    assert problem.startswith("tracing: OTEL_")
    assert tracing_problem(TracingSettings(), {name: value}) is None


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("endpoint: localhost:4318", "tracing.endpoint"),
        ("endpoint: 'https://user:canary@x.test'", "tracing.endpoint"),
        ("endpoint: 'demo:'", "tracing.endpoint"),
        ("sample_ratio: 1.5", "tracing.sample_ratio"),
        ("headers: {'bad name': x}", "tracing.headers"),
        ("nothing: 1", "tracing"),
    ],
)
def test_bad_settings(text: str, path: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f"tracing: {{{text}}}".encode(), {}, tmp_path)
    assert [problem.path for problem in caught.value.problems] == [path]
    assert "canary" not in str(caught.value)


def test_warnings(tmp_path: Path) -> None:
    found = parse(
        b"tracing: {endpoint: 'http://x.test', content: true, headers: {authorization: canary}}", {}, tmp_path
    )
    assert {path for path, _ in warnings(found)} == {"tracing", "tracing.endpoint", "tracing.headers.authorization"}
    assert "canary" not in repr(found)


def test_the_packages_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both commands say in one line what to install. Without traces nothing is missing."""
    file = tmp_path / "trilogue.yaml"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name in [name for name in sys.modules if name.startswith("opentelemetry.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    for command in (["check", str(file)], ["serve", "--config", str(file), "--port", "0"]):
        file.write_text("tracing: {enabled: true}\nadmin: {enabled: false}")
        result = CliRunner().invoke(app, command)
        assert (result.exit_code, result.output.count("\n")) == (2, 1)
        assert "pip install 'trilogue[otel]'" in result.output
    file.write_text("tracing: {enabled: false}")
    assert CliRunner().invoke(app, ["check", str(file)]).exit_code == 0


def test_check_says_where_traces_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "trilogue.yaml"
    file.write_text("tracing: {enabled: true, endpoint: 'http://localhost:1', sample_ratio: 0.1}")
    line = "traces: http://localhost:1/v1/traces, 0.1 of those that begin here, without messages"
    assert line in CliRunner().invoke(app, ["check", str(file)]).output
    file.write_text("tracing: {enabled: true, content: true}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://user:canary@x.test")
    output = CliRunner().invoke(app, ["check", str(file)]).output
    assert "traces: to the address in OTEL_EXPORTER_OTLP_ENDPOINT, with messages" in output
    assert "canary" not in output

"""The files for running the gateway for good: they are valid, and agree with each other and with the code."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from trilogue.config import Config, is_loopback, parse, reason_not_to_start

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "trilogue"
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
SYSTEMD = shutil.which("systemd-analyze")
KEY = {"TRILOGUE_KEY": "a-key-for-tests"}


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def startable(text: str) -> Config:
    config = parse(text.encode(), KEY, Path())
    assert reason_not_to_start(config) is None
    return config


def test_the_image_does_not_run_as_root_and_keeps_its_state() -> None:
    assert re.search(r"^USER trilogue$", DOCKERFILE, re.MULTILINE)
    assert re.search(r"^VOLUME /var/lib/trilogue$", DOCKERFILE, re.MULTILINE)
    assert "XDG_STATE_HOME=/var/lib " in DOCKERFILE
    assert "/health" in DOCKERFILE
    assert "--require-hashes" in DOCKERFILE


def test_the_image_gets_all_that_it_copies() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    lines = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
    copied = [word for line in lines for word in line.split()]
    assert copied
    assert [name for name in copied if f"!{name}" not in ignored or not (ROOT / name).exists()] == []


def test_compose() -> None:
    compose = loaded(DEPLOY / "compose.yaml")
    services = compose["services"]
    assert [name for name, one in services.items() if "profiles" not in one] == ["trilogue"]
    gateway = services["trilogue"]
    assert gateway["ports"] == ["127.0.0.1:4000:4000"]
    config = startable((DEPLOY / "trilogue.yaml").read_text("utf-8"))
    assert not is_loopback(config.server.host)
    assert float(gateway["stop_grace_period"].removesuffix("s")) > config.server.drain_seconds
    named = {volume.partition(":")[0] for one in services.values() for volume in one.get("volumes", ())}
    assert {name for name in named if not name.startswith(".")} == set(compose["volumes"])
    assert [name for name in named if name.startswith(".") and not (DEPLOY / name).exists()] == []


def test_prometheus_and_grafana_files_are_yaml() -> None:
    assert loaded(DEPLOY / "prometheus" / "prometheus.yml")["scrape_configs"][0]["job_name"] == "trilogue"
    assert loaded(DEPLOY / "prometheus" / "grafana.yaml")["datasources"][0]["type"] == "prometheus"


def test_systemd_unit() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.read(DEPLOY / "trilogue.service")
    service = unit["Service"]
    # Of settings that are repeated, the parser keeps the last one.
    assert service["execreload"] == "/bin/kill -HUP $MAINPID"
    assert service["statedirectory"] == "trilogue"
    assert service["environment"] == "XDG_STATE_HOME=/var/lib"
    assert float(service["timeoutstopsec"]) > Config().server.drain_seconds


@pytest.mark.skipif(SYSTEMD is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """With a program that exists in place of ours, systemd finds nothing wrong."""
    text = (DEPLOY / "trilogue.service").read_text("utf-8").replace("/opt/trilogue/bin/trilogue", "/bin/true")
    unit = tmp_path / "trilogue.service"
    unit.write_text(text)
    command = [SYSTEMD or "systemd-analyze", "verify", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "trilogue.service" not in done.stderr, done.stderr


def test_chart_values() -> None:
    chart, values = loaded(CHART / "Chart.yaml"), loaded(CHART / "values.yaml")
    assert chart["apiVersion"] == "v2"
    config = startable(values["config"])
    assert config.keys
    assert values["terminationGracePeriodSeconds"] > config.server.drain_seconds


def test_templates_use_values_that_exist() -> None:
    values = loaded(CHART / "values.yaml")
    used = {
        name
        for template in (CHART / "templates").iterdir()
        for name in re.findall(r"\.Values\.([\w.]+)", template.read_text("utf-8"))
    }
    assert used
    assert [name for name in sorted(used) if not _has(values, name.split("."))] == []


def _has(values: Any, path: list[str]) -> bool:
    return not path or (isinstance(values, dict) and path[0] in values and _has(values[path[0]], path[1:]))


HELM = shutil.which("helm")
OPTIONS: dict[str, list[str]] = {
    "defaults": [],
    "everything": ["--set", "ingress.enabled=true,ingress.tlsSecret=cert,ingress.className=nginx,secrets={keys,more}"],
    "no persistence": ["--set", "persistence.enabled=false"],
}


@pytest.mark.skipif(HELM is None, reason="helm is not installed")
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_helm_renders_the_chart(options: list[str]) -> None:
    command = [HELM or "helm", "template", "release", str(CHART), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    kinds = {one["kind"]: one for one in yaml.safe_load_all(done.stdout) if one}
    assert {"ConfigMap", "Service", "StatefulSet"} <= kinds.keys()
    assert ("Ingress" in kinds) is ("ingress.enabled=true" in " ".join(options))
    pod = kinds["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    names = {volume["name"] for volume in pod["volumes"]}
    names |= {claim["metadata"]["name"] for claim in kinds["StatefulSet"]["spec"].get("volumeClaimTemplates", ())}
    assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} == names
    startable(kinds["ConfigMap"]["data"]["trilogue.yaml"])


@pytest.mark.skipif(HELM is None, reason="helm is not installed")
def test_helm_lints_the_chart() -> None:
    done = subprocess.run([HELM or "helm", "lint", "--strict", str(CHART)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout

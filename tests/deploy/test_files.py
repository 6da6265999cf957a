"""The files for running the gateway for good: they are valid, and agree with each other and with the code."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from trilogue.base.addresses import is_loopback
from trilogue.config.checks import reason_not_to_start
from trilogue.config.config import Config
from trilogue.config.load import parse

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "trilogue"
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
SYSTEMD = shutil.which("systemd-analyze")
ENVIRON = {
    "TRILOGUE_KEY": "a-key-for-tests",
    "TRILOGUE_ADMIN_KEY": "an-admin-key-for-tests",
    "TRILOGUE_POSTGRESQL": "postgresql://trilogue:password@postgres/trilogue",
    "TRILOGUE_REDIS": "redis://valkey:6379/0",
}
LOCKED = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def startable(text: str) -> Config:
    config = parse(text.encode(), ENVIRON, Path())
    assert reason_not_to_start(config) is None
    return config


def test_the_image_does_not_run_as_root_and_keeps_its_state() -> None:
    assert re.search(r"^USER trilogue$", DOCKERFILE, re.MULTILINE)
    assert re.search(r"^VOLUME /var/lib/trilogue$", DOCKERFILE, re.MULTILINE)
    assert "XDG_STATE_HOME=/var/lib " in DOCKERFILE
    assert "/health" in DOCKERFILE
    assert "--require-hashes" in DOCKERFILE
    assert re.search(r"^EXPOSE 4000 4001$", DOCKERFILE, re.MULTILINE)


def test_the_image_has_what_every_setting_needs() -> None:
    """All packages of the extras that the gateway uses, in the versions that the tests use, with hashes."""
    (name,) = re.findall(r"--require-hashes -r (\S+)$", DOCKERFILE, re.MULTILINE)
    text = (ROOT / name).read_text("utf-8")
    image, tested = (dict(LOCKED.findall(one)) for one in (text, (ROOT / "requirements.lock").read_text("utf-8")))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for extra in ("cluster", "postgresql", "sso", "otel"):
        needed = {re.split(r"[\[>=<]", requirement)[0] for requirement in extras[extra]}
        assert needed <= image.keys(), extra
    assert "psycopg-binary" in image
    assert dict(LOCKED.findall((ROOT / "requirements-run.lock").read_text("utf-8"))).items() <= image.items()
    assert {name: version for name, version in image.items() if tested[name] != version} == {}
    assert all("--hash=sha256:" in one for one in re.split(r"^(?=[a-z0-9-]+==)", text, flags=re.MULTILINE)[1:])


def test_the_image_gets_all_that_it_copies() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    lines = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
    copied = [word for line in lines for word in line.split()]
    assert copied
    assert [name for name in copied if f"!{name}" not in ignored or not (ROOT / name).exists()] == []


def test_compose() -> None:
    compose = loaded(DEPLOY / "compose.yaml")
    services = compose["services"]
    assert [name for name, one in services.items() if "profiles" not in one] == ["trilogue", "postgres", "valkey"]
    gateway = services["trilogue"]
    assert gateway["ports"] == ["127.0.0.1:4000:4000", "127.0.0.1:4001:4001"]
    assert [
        port for one in services.values() for port in one.get("ports", ()) if not port.startswith("127.0.0.1:")
    ] == []
    config = startable((DEPLOY / "trilogue.yaml").read_text("utf-8"))
    assert not is_loopback(config.server.host)
    assert not is_loopback(config.admin.host)
    assert (config.server.port, config.admin.port) == (4000, 4001)
    targets = loaded(DEPLOY / "prometheus" / "prometheus.yml")["scrape_configs"][0]["static_configs"][0]["targets"]
    assert targets == ["trilogue:4001"]
    assert float(gateway["stop_grace_period"].removesuffix("s")) > config.server.drain_seconds
    named = {volume.partition(":")[0] for one in services.values() for volume in one.get("volumes", ())}
    assert {name for name in named if not name.startswith(".")} == set(compose["volumes"])
    assert [name for name in named if name.startswith(".") and not (DEPLOY / name).exists()] == []


def test_compose_wires_the_servers_to_the_gateway() -> None:
    """The configuration uses the variables, they name the services, and the gateway waits until these are healthy."""
    services = loaded(DEPLOY / "compose.yaml")["services"]
    gateway = services["trilogue"]
    written = re.findall(r"env:(\w+)", (DEPLOY / "trilogue.yaml").read_text("utf-8"))
    assert set(written) == set(ENVIRON) <= gateway["environment"].keys()
    password = re.compile(r"\$\{POSTGRES_PASSWORD:\?[^}]+\}")
    urls = {name: password.sub("pw", gateway["environment"][f"TRILOGUE_{name}"]) for name in ("POSTGRESQL", "REDIS")}
    environ = {**ENVIRON, **{f"TRILOGUE_{name}": url for name, url in urls.items()}}
    config = parse((DEPLOY / "trilogue.yaml").read_bytes(), environ, Path())
    assert config.cluster.redis is not None
    assert config.cluster.postgresql is not None
    assert config.state.store == config.usage.store == config.cluster.postgresql
    database, redis = (urlsplit(one.reveal()) for one in (config.cluster.postgresql, config.cluster.redis))
    made = services["postgres"]["environment"]
    assert (database.username, database.path) == (made["POSTGRES_USER"], f"/{made['POSTGRES_DB']}")
    assert password.fullmatch(made["POSTGRES_PASSWORD"])
    assert {database.hostname, redis.hostname} == {"postgres", "valkey"} == gateway["depends_on"].keys()
    for name, condition in gateway["depends_on"].items():
        assert condition == {"condition": "service_healthy"}
        assert services[name]["healthcheck"]["test"]
    assert "noeviction" in services["valkey"]["command"]


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


ADDED = re.compile(r"\{\{- if \.Values\.(\w+)\.enabled \}\}\n(\1: .*)\n\{\{- end \}\}")


def test_what_the_chart_adds_to_the_configuration() -> None:
    """Without helm: the lines of the template behind the default configuration."""
    values = loaded(CHART / "values.yaml")
    added = dict(ADDED.findall((CHART / "templates" / "_names.tpl").read_text("utf-8")))
    assert added.keys() == {"cluster", "admin"}
    assert not any(values[name]["enabled"] for name in added)
    admin = added["admin"].replace("{{ .Values.admin.port }}", str(values["admin"]["port"]))
    config = startable("\n".join([values["config"], added["cluster"], admin]))
    assert config.cluster.redis is not None
    assert config.admin.port == 4001
    assert not is_loopback(config.admin.host)
    written = set(re.findall(r"env:(\w+)", f"{values['config']}{added}"))
    assert written == set(ENVIRON)
    assert {values["cluster"][name]["key"] for name in ("postgresql", "redis")} == written - {
        "TRILOGUE_KEY",
        "TRILOGUE_ADMIN_KEY",
    }


@pytest.mark.parametrize("template", sorted(CHART.glob("templates/*.yaml")), ids=lambda path: path.stem)
def test_templates_are_yaml(template: Path) -> None:
    """Without helm: without the lines of the template language, and with a word for each value."""
    lines = [one for one in template.read_text("utf-8").splitlines() if not re.fullmatch(r"\s*\{\{.*\}\}", one)]
    text = re.sub(r"\{\{.*?\}\}", "x", "\n".join(lines))
    assert yaml.safe_load(text)["kind"].lower() == template.stem


HELM = shutil.which("helm")
OPTIONS: dict[str, list[str]] = {
    "defaults": [],
    "everything": ["--set", "ingress.enabled=true,ingress.tlsSecret=cert,ingress.className=nginx,secrets={keys,more}"],
    "no persistence": ["--set", "persistence.enabled=false"],
    "cluster": ["--set", "cluster.enabled=true,replicas=3,admin.enabled=true"],
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
    config = startable(kinds["ConfigMap"]["data"]["trilogue.yaml"])
    ports = [port["name"] for port in kinds["Service"]["spec"]["ports"]]
    assert ports == [port["name"] for port in pod["containers"][0]["ports"]]
    with_cluster = "cluster.enabled=true" in " ".join(options)
    assert (config.cluster.redis is not None) is with_cluster is ("admin" in ports)
    variables = [one["name"] for one in pod["containers"][0].get("env", ())]
    assert variables == (["TRILOGUE_POSTGRESQL", "TRILOGUE_REDIS"] if with_cluster else [])


@pytest.mark.skipif(HELM is None, reason="helm is not installed")
def test_helm_lints_the_chart() -> None:
    done = subprocess.run([HELM or "helm", "lint", "--strict", str(CHART)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout

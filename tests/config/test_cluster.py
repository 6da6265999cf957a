"""The settings of a cluster: what is accepted, what is derived from them, and that no text shows a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from trilogue.app.stores import locations_at
from trilogue.config.checks import warnings
from trilogue.config.config import Config
from trilogue.config.load import parse
from trilogue.errors import ConfigError

PASSWORD = "canary-pw"
DATABASE = f"postgresql://user:{PASSWORD}@db.example.com/trilogue"


def read(text: str, **environ: str) -> Config:
    return parse(text.encode(), environ, Path("/nowhere"))


def stores(config: Config) -> list[str]:
    found = [config.state.store, config.usage.store]
    keys = locations_at(config, Path("/pool.db")).keys
    return [*("" if one is None else one.reveal() for one in found), keys]


def test_what_must_last_is_in_the_database_of_the_cluster() -> None:
    assert stores(read("cluster: {postgresql: env:DB}", DB=DATABASE)) == [DATABASE, DATABASE, DATABASE]


def test_other_places_take_precedence_but_keys_stay_shared() -> None:
    found = stores(read("cluster: {postgresql: env:DB}\nstate: none\nusage: /usage.db", DB=DATABASE))
    assert found == ["none", "/usage.db", DATABASE]


def test_without_a_cluster_nothing_changes() -> None:
    assert stores(read("mode: declare")) == ["", "", "/keys.db"]
    assert stores(read("state: env:DB", DB=DATABASE))[2] == DATABASE


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        (f"http://:{PASSWORD}@host", "must be a URL that begins with rediss://"),
        (f"redis://:{PASSWORD}@host:0/0", "must name a host"),
        ("redis:///0", "must name a host"),
        ("unix://", "must name the path of a socket"),
        (f"redis://:{PASSWORD}@host:99999", "is not a valid URL"),
        (f"redis://:{PASSWORD}@host/0?retry=3", "unknown option retry"),
    ],
)
def test_a_wrong_address_is_named_without_its_password(url: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read("cluster: {redis: env:URL}", URL=url)
    assert problem in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_a_wrong_database_is_named_once() -> None:
    with pytest.raises(ConfigError) as caught:
        read("cluster: {postgresql: env:URL}", URL=f"mysql://:{PASSWORD}@host")
    assert [problem.path for problem in caught.value.problems] == ["cluster.postgresql"]


@pytest.mark.parametrize(
    "url", ["redis://localhost", "rediss://u:p@host:6380/2?ssl_ca_certs=/ca.pem", "unix:///r.sock"]
)
def test_addresses_that_work(url: str) -> None:
    assert read("cluster: {redis: env:URL}", URL=url).cluster.redis is not None


def test_warnings() -> None:
    found = dict(warnings(read(f"cluster: {{redis: 'redis://:{PASSWORD}@host'}}")))
    assert "not encrypted" in found["cluster.redis"] or "written in the file" in found["cluster.redis"]
    assert "stay on each machine" in found["cluster.postgresql"]
    assert "cannot open" in found["seal_keys"]
    config = read("cluster: {redis: env:URL, postgresql: env:DB}", URL="rediss://host", DB=DATABASE)
    assert "kept in the database" in dict(warnings(config))["seal_keys"]
    assert PASSWORD not in repr(config)

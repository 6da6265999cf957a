"""A server without keys is for this machine only."""

from ipaddress import IPv4Address

import pytest
from msgspec.structs import replace

from trilogue.config import ClientKey, Config, Secret, Server, is_loopback, refuse_exposure


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "localhost", "LOCALHOST", "::ffff:127.0.0.1"]
)
def test_this_machine(host: str) -> None:
    """Nothing to refuse."""
    assert is_loopback(host)
    assert refuse_exposure(Config(server=Server(host=host))) is None


@pytest.mark.parametrize(
    "host",
    [
        str(IPv4Address(0)),
        "::",
        "",
        "192.168.1.2",
        "8.8.8.8",
        "example.org",
        "localhost.example.org",
        "::ffff:10.0.0.1",
    ],
)
def test_other_machines_need_keys(host: str) -> None:
    """The line says what to do; with a key it is allowed."""
    config = Config(server=Server(host=host))
    line = refuse_exposure(config)
    assert line is not None
    assert "keys: [env:TRILOGUE_KEY]" in line
    assert "127.0.0.1" in line
    assert "\n" not in line
    assert refuse_exposure(replace(config, keys=(ClientKey(key=Secret("k")),))) is None

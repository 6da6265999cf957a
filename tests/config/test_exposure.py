"""A server without keys is for this machine only, and a gateway must not send requests to itself."""

from ipaddress import IPv4Address

import pytest
from msgspec.structs import replace

from trilogue.base.addresses import is_loopback
from trilogue.base.secrets import Secret
from trilogue.config.checks import exposure_problem, reason_not_to_start
from trilogue.config.config import Config, Server
from trilogue.config.load import environment_config
from trilogue.gateway.access.settings import ClientKeySettings
from trilogue.model import Protocol
from trilogue.upstreams.settings import ProviderSettings


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "localhost", "LOCALHOST", "::ffff:127.0.0.1"]
)
def test_this_machine(host: str) -> None:
    """Loopback addresses need no keys."""
    assert is_loopback(host)
    assert exposure_problem(Config(server=Server(host=host))) is None


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
    """Other addresses are refused with a line that says what to do, and accepted with a key."""
    config = Config(server=Server(host=host))
    line = exposure_problem(config)
    assert line is not None
    assert "keys: [env:TRILOGUE_KEY]" in line
    assert "127.0.0.1" in line
    assert "\n" not in line
    assert exposure_problem(replace(config, keys=(ClientKeySettings(key=Secret("k")),))) is None


ANY = str(IPv4Address(0))


def started(host: str, url: str) -> str | None:
    server, key = Server(host=host, port=4000), ClientKeySettings(key=Secret("k"))
    provider = ProviderSettings(protocol=Protocol.CHAT, base_url=url)
    return reason_not_to_start(Config(server=server, keys=(key,), providers={"up": provider}))


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:4000/v1"),
        ("127.0.0.1", "http://localhost:4000"),
        ("localhost", "http://127.0.0.1:4000"),
        ("::1", "http://[::1]:4000/v1"),
        (ANY, "http://127.0.0.1:4000"),
        (ANY, "http://localhost:4000"),
        ("gateway.example", "http://gateway.example:4000"),
    ],
)
def test_its_own_upstream_is_refused(host: str, url: str) -> None:
    """A gateway that is its own upstream is refused, because a request would loop forever."""
    line = started(host, url)
    assert line is not None
    assert line.startswith(f"providers.up.base_url: {url} is the address of this gateway")
    assert "\n" not in line


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:4001/v1"),
        ("127.0.0.1", "https://127.0.0.1:4000/v1"),
        ("127.0.0.1", "http://127.0.0.2:4000"),
        ("127.0.0.1", "http://10.0.0.1:4000"),
        ("127.0.0.1", "http://gateway.example:4000"),
        (ANY, "http://10.0.0.1:4000"),
        ("127.0.0.1", "demo:"),
    ],
)
def test_other_servers_are_accepted(host: str, url: str) -> None:
    """Another port, address or scheme is another server."""
    assert started(host, url) is None


def test_a_base_url_that_was_set_for_clients_is_named() -> None:
    """The client pages say to set the base URL variables. If the gateway inherits them, it would call itself."""
    line = reason_not_to_start(
        environment_config({"OPENAI_API_KEY": "none-needed", "OPENAI_BASE_URL": "http://127.0.0.1:4000/v1"})
    )
    assert line is not None
    assert "OPENAI_BASE_URL" in line

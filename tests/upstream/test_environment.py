"""Which proxy the environment names for a host: as other programs read the same variables."""

from unittest import mock
from urllib.request import getproxies_environment, proxy_bypass

import pytest

from trilogue.upstream.environment import proxy_from

ENVIRONMENTS: tuple[dict[str, str], ...] = (
    {},
    {"HTTP_PROXY": "http://up:1"},
    {"http_proxy": "http://low:1", "HTTP_PROXY": "http://up:1"},
    {"http_proxy": "", "HTTP_PROXY": "http://up:1"},
    {"https_proxy": "http://tls:1", "ALL_PROXY": "socks5://all:1"},
    {"ALL_PROXY": "socks5://all:1", "NO_PROXY": "*"},
    {"ALL_PROXY": "socks5://all:1", "NO_PROXY": "example.org, .internal ,,10.0.0.1"},
    {"ALL_PROXY": "socks5://all:1", "no_proxy": "EXAMPLE.ORG", "NO_PROXY": "*"},
    {"ALL_PROXY": "socks5://all:1", "no_proxy": "", "NO_PROXY": "*"},
    {"all_proxy": "socks5://all:1", "no_proxy": "::1"},
)
HOSTS = ("example.org", "API.example.org", "badexample.org", "internal", "a.internal", "10.0.0.1", "::1")


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("environ", ENVIRONMENTS, ids=str)
def test_as_the_standard_library(environ: dict[str, str], scheme: str, host: str) -> None:
    with mock.patch.dict("os.environ", environ, clear=True):
        found = getproxies_environment()
        expected = None if proxy_bypass(host) else found.get(scheme) or found.get("all")
    assert proxy_from(environ, scheme, host) == expected

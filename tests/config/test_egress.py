"""Which proxies of the environment are used for which providers."""

from __future__ import annotations

from pathlib import Path

import pytest

from trilogue.config.config import Config
from trilogue.config.load import environment_config, parse
from trilogue.errors import ConfigError

KEYS = {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a"}
PROXY = "http://user:secret@proxy.example:3128"
FILE = """\
env_proxies: ASKED
providers:
  far: {protocol: anthropic_messages, base_url: https://far.example/v1}
  plain: {protocol: openai_chat_completions, base_url: "http://plain.example"}
  own: {protocol: openai_responses, base_url: https://own.example, proxies: ["socks5://own:1"]}
  here: {protocol: openai_chat_completions, base_url: "http://127.0.0.1:1"}
  name: {protocol: openai_chat_completions, base_url: "http://localhost:1"}
  six: {protocol: openai_chat_completions, base_url: "http://[::1]:1"}
  demo: {protocol: openai_responses, base_url: "demo:"}
"""


def proxies(config: Config) -> dict[str, list[str]]:
    return {name: [proxy.reveal() for proxy in one.proxies] for name, one in config.providers.items() if one.proxies}


def read(environ: dict[str, str], asked: str = "true") -> dict[str, list[str]]:
    found = proxies(parse(FILE.replace("ASKED", asked).encode(), environ, Path()))
    assert found.pop("own") == ["socks5://own:1"]
    return found


def test_a_file_must_ask_for_them() -> None:
    """A configuration file has to ask for the proxies of the environment."""
    assert read({"HTTPS_PROXY": PROXY, "ALL_PROXY": PROXY}, "false") == {}


def test_by_scheme() -> None:
    """There is one variable per scheme and one for all.

    Lower case comes first. Loopback addresses never use a proxy.
    """
    assert read({"HTTPS_PROXY": PROXY}) == {"far": [PROXY]}
    assert read({"http_proxy": PROXY, "HTTP_PROXY": "http://other:1"}) == {"plain": [PROXY]}
    assert read({"ALL_PROXY": "socks5h://s:1", "https_proxy": PROXY}) == {"far": [PROXY], "plain": ["socks5h://s:1"]}
    assert read({"HTTPS_PROXY": "proxy.example:3128"}) == {"far": ["http://proxy.example:3128"]}
    assert read({"HTTPS_PROXY": " "}) == {}


@pytest.mark.parametrize(
    "named", ["far.example", ".example", "*.example", "example", "other.test, FAR.example", "far.example:443", "*"]
)
def test_exceptions(named: str) -> None:
    """NO_PROXY is read as other programs read it."""
    assert read({"HTTPS_PROXY": PROXY, "NO_PROXY": named}) == {}


@pytest.mark.parametrize("named", ["r.example", "other.test", "far.example.org", "10.0.0.0/8", ".", ","])
def test_other_hosts_are_not_exceptions(named: str) -> None:
    """Part of a host name is another host name."""
    assert read({"HTTPS_PROXY": PROXY, "NO_PROXY": named}) == {"far": [PROXY]}


@pytest.mark.parametrize(("named", "direct"), [("10.1.2.3", True), ("10.0.0.0/8", True), ("10.2.0.0/16", False)])
def test_exceptions_by_address(named: str, direct: bool) -> None:
    """An exception may be an address or a network."""
    text = b"env_proxies: true\nproviders: {x: {protocol: openai_responses, base_url: 'https://10.1.2.3'}}\n"
    found = proxies(parse(text, {"HTTPS_PROXY": PROXY, "NO_PROXY": named}, Path()))
    assert found == ({} if direct else {"x": [PROXY]})


def test_bad_variables_are_named_without_their_value() -> None:
    """The value is not shown, because it may contain a password."""
    with pytest.raises(ConfigError) as caught:
        read({"HTTPS_PROXY": "ftp://user:secret@x"})
    assert [problem.path for problem in caught.value.problems] == ["HTTPS_PROXY"]
    assert "secret" not in str(caught.value.problems[0])
    with pytest.raises(ConfigError):
        environment_config({**KEYS, "HTTPS_PROXY": "ftp://x"})


def test_without_a_file() -> None:
    """Without a file, keys and proxies come from the environment. With a file without providers, only the keys do."""
    environ = {**KEYS, "HTTPS_PROXY": PROXY, "NO_PROXY": "api.anthropic.com"}
    assert proxies(environment_config(environ)) == {"openai": [PROXY]}
    assert proxies(parse(b"mode: strict\n", environ, Path())) == {}

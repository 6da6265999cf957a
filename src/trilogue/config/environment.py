"""What the environment adds to a configuration: variables of `.env` files, and proxies for upstreams.

`.env` files are next to the configuration file or in the working directory. The environment comes first, then the file
next to the configuration, then the one in the working directory. Lines are `NAME=value`, with or without `export` and
quotes; anything else is skipped, because these files are often shared with other programs. Values are taken as they
are: nothing is expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from urllib.parse import urlsplit

from msgspec.structs import replace

from trilogue.base.addresses import proxy_fault
from trilogue.base.secrets import Secret
from trilogue.config.config import Config
from trilogue.upstreams.settings import ProviderSettings

NAME = ".env"
SWITCH = "TRILOGUE_DOTENV"
"""the variable that switches these files off: `0`, `no`, `off` or `false`"""
MAX_BYTES = 1024 * 1024
_OFF = frozenset({"0", "no", "off", "false"})
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")
_QUOTED = re.compile(r"""'([^']*)'(?:\s+#.*)?|"((?:[^"\\]|\\.)*)"(?:\s+#.*)?""")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
Faults = list[tuple[str, str]]


def with_dotenv(environ: Mapping[str, str], config_file: Path | None) -> dict[str, str]:
    """Return the environment with the variables of `.env` files that it does not have."""
    found: dict[str, str] = {}
    if environ.get(SWITCH, "").strip().lower() not in _OFF:
        for path in dotenv_files(config_file):
            found = {**_read(path), **found}
    # An empty variable counts as set: it is the usual way to switch one off.
    return {**found, **environ}


def dotenv_files(config_file: Path | None) -> list[Path]:
    """Return the `.env` files that are there, the first one first in precedence."""
    folders = [Path()] if config_file is None else [config_file.parent, Path()]
    return list(dict.fromkeys(path for folder in folders if (path := (folder / NAME)).is_file()))


def _read(path: Path) -> dict[str, str]:
    """Return the variables of a file; none if it cannot be read."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES).decode("utf-8-sig", "replace")
    except OSError:
        return {}
    return dict(_variables(text))


def _variables(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        # Where state is kept must not depend on the working directory.
        if found is not None and not found[1].startswith("XDG_"):
            yield found[1], _value(found[2])


def _value(text: str) -> str:
    quoted = _QUOTED.fullmatch(text)
    if quoted is None:
        return re.sub(r"(^|\s+)#.*", "", text)
    if quoted[1] is not None:
        return quoted[1]
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), quoted[2])


def with_environment_proxies(config: Config, environ: Mapping[str, str]) -> tuple[Config, Faults]:
    """Add the proxies that HTTPS_PROXY, HTTP_PROXY and ALL_PROXY name to providers that have none.

    This happens only if the configuration asks for it, or if there is no configuration file: the variables are often
    set for other programs, and a proxy sees where requests go. Returns also which variables are not valid.
    """
    if not config.env_proxies:
        return config, []
    faults: Faults = []
    providers = {name: _with_proxy(one, environ, faults) for name, one in config.providers.items()}
    return replace(config, providers=providers), list(dict.fromkeys(faults))


def _with_proxy(provider: ProviderSettings, environ: Mapping[str, str], faults: Faults) -> ProviderSettings:
    variable, url = _proxy_for(provider.base_url, environ)
    if provider.proxies or provider.is_demo or not url:
        return provider
    fault = proxy_fault(url)
    if fault:
        faults.append((variable, fault))
        return provider
    return replace(provider, proxies=(Secret(url),))


def _proxy_for(base_url: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the variable that names a proxy for this address, and the proxy; both empty if there is none."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    exceptions = _proxy_variable("no_proxy", environ)[1].split(",")
    if _is_local(host) or any(_is_excepted(host, one.strip().lower()) for one in exceptions):
        return "", ""
    found = _proxy_variable(f"{parts.scheme}_proxy", environ)
    variable, url = found if found[1] else _proxy_variable("all_proxy", environ)
    # Many people write only host and port.
    return variable, url if "://" in url or not url else f"http://{url}"


def _proxy_variable(name: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the variable that is set and its value. Lower case comes first, as in curl."""
    for variable in (name, name.upper()):
        if value := environ.get(variable, "").strip():
            return variable, value
    return name, ""


def _is_excepted(host: str, exception: str) -> bool:
    """Return whether an entry of NO_PROXY covers a host: a name and its subdomains, an address, a network, or `*`."""
    name = exception.rpartition(":")[0] if exception.count(":") == 1 else exception
    name = name.removeprefix("*").removeprefix(".")
    if not name:
        return exception == "*"
    try:
        return ip_address(host) in ip_network(name, strict=False)
    except ValueError:
        return host == name or host.endswith(f".{name}")


def _is_local(host: str) -> bool:
    """Return whether a host is this machine, which is never reached through a proxy."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")

"""What is known of one vendor, as types: its addresses, its names elsewhere, its models, what they accept and cost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from trilogue.model import Protocol
from trilogue.vendors.price import PriceRow
from trilogue.vendors.profile import ProfileRow

CHAT, MESSAGES, RESPONSES = (Protocol.parse(name) for name in ("chat", "messages", "responses"))

STATELESS: dict[str, Any] = {"profile": {"keeps_state": False}}
"""settings for servers of the Responses protocol that keep nothing: the gateway keeps the responses"""

_PLACE = re.compile(r"\{(\w+)\}")


class Parameter(Struct, frozen=True, kw_only=True):
    """A part of an address that each user has to set.

    `variables`: environment variables that are used if it is not set, the first one that is there. `fallback`: its
    value without them; empty if there is none.
    """

    name: str
    what: str
    variables: tuple[str, ...] = ()
    fallback: str = ""

    def value(self, environ: Mapping[str, str]) -> str:
        """Return the value for a user who has not set it; "" if there is none."""
        found = (environ.get(variable, "").strip() for variable in self.variables)
        return next(filter(None, found), self.fallback)


class Preset(Struct, frozen=True, kw_only=True):
    """A provider by name: what a configuration need not say, from the published documentation of the vendor.

    `urls`: base URL by protocol, the preferred protocol first, with `{…}` for parameters. `variable`: the environment
    variable that holds the key. `command`: prints the key, if there is no variable for it.
    """

    name: str
    urls: dict[Protocol, str]
    model: str
    """a model that it serves, for examples; empty if that depends on the user"""
    variable: str = ""
    command: str = ""
    parameters: tuple[Parameter, ...] = ()
    bearer: bool = False
    """the key is a bearer token in Messages too"""
    vendor: str = ""
    """whose rows of the model table apply, where neither address nor name shows it"""
    settings: dict[str, Any] = {}
    """further settings of the provider, in the form of the configuration file"""
    port: int = 0
    """where it listens on this machine; 0 for vendors. Such a server needs a key only if its user has set one"""
    owned_by: str = ""
    """what such a server says about its models, by which it is recognised on another port"""
    general_variable: bool = False
    """the variable is usually set for something else, so that it alone does not mean that the user wants this"""

    @property
    def protocol(self) -> Protocol:
        """The protocol to prefer if a request can be translated to several."""
        return next(iter(self.urls))

    @property
    def one_address(self) -> bool:
        """Whether all its protocols have the same base URL."""
        return len(set(self.urls.values())) == 1

    def is_found(self, environ: Mapping[str, str]) -> bool:
        """Return whether the environment has all that it needs, so that it can be offered without a configuration."""
        complete = all(parameter.value(environ) for parameter in self.parameters)
        wanted = bool(self.variable) and not self.port and not self.general_variable
        return wanted and complete and bool(environ.get(self.variable, "").strip())

    @property
    def needs(self) -> str:
        """What a user has to do before models of this provider are served."""
        entry = f"add {self.name} to providers in a configuration file"
        if self.port:
            return f"{entry}; without such a file, start its server on port {self.port}"
        if not self.variable or self.general_variable:
            return entry
        variables = [self.variable, *(one.variables[0] for one in self.parameters if not one.fallback)]
        return f"set {' and '.join(variables)}; if the configuration file has providers, also add {self.name} to them"

    def addresses(self, values: Mapping[str, str]) -> dict[Protocol, str]:
        """Return its base URLs with these values of its parameters."""
        return {protocol: _filled(url, values) for protocol, url in self.urls.items()}


def _filled(url: str, values: Mapping[str, str]) -> str:
    # Google has no region in the name of the host of its global endpoint.
    return _PLACE.sub(lambda found: values[found[1]], url).replace("//global-", "//")


class ModelFamily(Struct, frozen=True):
    """Well-known names of models that go to a vendor where no route says otherwise."""

    label: str
    """the names as a glob, such as `gpt-*`"""
    pattern: str = ""
    """the names as a regular expression, if they are not those of the glob"""


class Vendor(Struct, frozen=True, kw_only=True):
    """A vendor of models, a cloud that resells them, or a server that users run."""

    name: str
    preset: Preset
    other_names: tuple[str, ...] = ()
    """other words for it in the name of a provider"""
    routed_names: tuple[str, ...] = ()
    """names of providers that its families of models go to, the preferred one first; default: its own name"""
    imported_names: tuple[str, ...] = ()
    """its names in the configurations of other gateways"""
    hosts: str = ""
    """a regular expression for the hosts whose models have its rows"""
    client_hosts: tuple[str, ...] = ()
    """hosts, besides those of its preset, that keys which it has issued may be passed on to"""
    key_prefixes: tuple[str, ...] = ()
    """how the keys begin that only it issues"""
    models: str = ""
    """a regular expression for the beginning of the names of models that it makes"""
    families: tuple[ModelFamily, ...] = ()
    is_complete: bool = False
    """its known models have a row for every restriction, so that what no row mentions is accepted"""
    profiles: tuple[ProfileRow, ...] = ()
    """what its models accept, from specific rows to general ones"""
    prices: tuple[PriceRow, ...] = ()

"""Where the requests of one HTTP client go: found by the name of a preset and the settings of the caller."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from trilogue.base.addresses import url_fault
from trilogue.base.secrets import Secret
from trilogue.errors import ClientError
from trilogue.http import HttpSettings
from trilogue.model import Protocol, protocol_of
from trilogue.protocols.codec import Target
from trilogue.protocols.registry import CODECS
from trilogue.upstreams.addresses import endpoint, is_azure
from trilogue.vendors.addresses import vendor_of
from trilogue.vendors.table import PRESETS
from trilogue.vendors.vendor import Preset


class BridgeUpstream(Struct, frozen=True, kw_only=True):
    """A provider and, unless the client names it in each request, a model.

    `urls`: base URL by protocol, the preferred one first. `bearer`: the key is a bearer token in Messages too.
    """

    provider: str
    model: str
    urls: dict[Protocol, str]
    key: Secret | None
    bearer: bool = False

    def url(self, protocol: Protocol) -> str:
        """Return the URL that requests of this protocol are sent to."""
        return endpoint(self.urls[protocol], protocol, CODECS[protocol].endpoint.path)

    def credentials(self, protocol: Protocol) -> dict[str, str]:
        """Return the header that carries the key; nothing if there is no key."""
        if self.key is None:
            return {}
        header = CODECS[protocol].endpoint.auth
        if header == "bearer" and is_azure(self.urls[protocol]):
            header = "api-key"
        if header == "bearer" or self.bearer:
            return {"authorization": f"Bearer {self.key.reveal()}"}
        return {header: self.key.reveal()}

    def target(self, protocol: Protocol, model: str) -> Target:
        """Return the target of a request in this protocol. `model`: the client's, used if none was set."""
        vendor = vendor_of(self.urls[protocol], self.provider)
        return Target.of(protocol, self.model or model, provider=self.provider, vendor=vendor)


def find_upstream(name: str, settings: HttpSettings, environ: Mapping[str, str]) -> BridgeUpstream:
    """Return the upstream of a name such as `anthropic/claude-sonnet-5` or `openai`. Raises ClientError."""
    provider, _, model = name.partition("/")
    preset = PRESETS.get(provider.lower())
    urls = _urls(provider, preset, settings, environ)
    for url in urls.values():
        fault = url_fault(url)
        if fault:
            raise ClientError(f"base_url {fault}")
    return BridgeUpstream(
        provider=provider,
        model=model,
        urls=urls,
        key=_key(provider, preset, settings, environ),
        bearer=preset is not None and preset.bearer,
    )


def _urls(
    provider: str, preset: Preset | None, settings: HttpSettings, environ: Mapping[str, str]
) -> dict[Protocol, str]:
    """Return the base URL of each protocol that the upstream is asked in, the preferred one first."""
    given = settings.get("base_url", "") or _base_from_environment(provider, environ)
    known = _known_urls(preset, environ, needed=not given) if preset is not None else {}
    named = settings.get("protocol")
    if named:
        protocol = protocol_of(named)
        url = given or known.get(protocol, "") or ("" if known else CODECS[protocol].endpoint.official_url)
        if not url:
            raise ClientError(f"{provider} does not speak {protocol.short}; it speaks {_shorts(known)}")
        return {protocol: url}
    if preset is not None:
        # One address serves one protocol, or all of them where the vendor's own addresses are one.
        return dict.fromkeys(known if preset.one_address else [preset.protocol], given) if given else known
    if given:
        raise ClientError(f"{provider} is not a known provider: say with protocol= what {provider} speaks")
    raise ClientError(
        f"{provider} is not a known provider: set base_url and protocol, or name one of {', '.join(PRESETS)}"
    )


def _known_urls(preset: Preset, environ: Mapping[str, str], *, needed: bool) -> dict[Protocol, str]:
    """Return the addresses of a preset. Raises ClientError if they have parts that the environment does not set."""
    values = {parameter.name: parameter.value(environ) for parameter in preset.parameters}
    missing = [parameter for parameter in preset.parameters if not values[parameter.name]]
    if missing and needed:
        variables = ", ".join(" or ".join(parameter.variables) for parameter in missing)
        raise ClientError(f"the address of {preset.name} is not known: set {variables}, or pass base_url")
    return preset.addresses(values)


def _base_from_environment(provider: str, environ: Mapping[str, str]) -> str:
    """Return what the vendors' own SDKs take from the environment, or ""."""
    return environ.get(f"{provider.upper()}_BASE_URL", "").strip() if provider in ("openai", "anthropic") else ""


def _key(provider: str, preset: Preset | None, settings: HttpSettings, environ: Mapping[str, str]) -> Secret | None:
    given = settings.get("api_key", "").strip()
    if given:
        return Secret(given)
    variable = preset.variable if preset is not None else ""
    found = environ.get(variable, "").strip() if variable else ""
    if preset is not None and not preset.port and not found and not settings.get("base_url"):
        hint = f"set {variable}, or pass api_key" if variable else f"pass as api_key what `{preset.command}` prints"
        raise ClientError(f"there is no key for {provider}: {hint}")
    # The vendor's key must not go to another address by accident: there it has to be passed.
    return Secret(found) if found and not settings.get("base_url") else None


def _shorts(urls: Mapping[Protocol, str]) -> str:
    return " and ".join(protocol.short for protocol in urls)

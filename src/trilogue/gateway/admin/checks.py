"""The checks of the admin interface's settings that types cannot express. Yields (path, text), never a value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_network
from urllib.parse import urlsplit

from trilogue.base.headers import LEGAL_NAME, OF_CONNECTION
from trilogue.base.problems import NAME, NAME_RULE
from trilogue.base.secrets import Secret
from trilogue.gateway.admin.settings import MAIN_KEY, AdminSettings, OidcSignOn, ProxySignOn, SignOnSettings
from trilogue.upstreams.addresses import is_loopback, url_fault

MIN_SECRET = 16
"""smallest length in characters"""
_TAKEN_HEADERS = OF_CONNECTION | {"host", "cookie", "origin", "authorization", "x-api-key", "content-type"}

Findings = Iterator[tuple[str, str]]


def check_admin(admin: AdminSettings, gateway: tuple[int, str], client_keys: Sequence[Secret]) -> Findings:
    """Yield everything that makes the settings of the admin interface unusable, except for its host.

    `gateway`: the port and the host at which clients connect.
    """
    if admin.public_url and _bad_url(admin.public_url):
        yield "admin.public_url", "must be an http(s) URL without a login"
    yield from _check_keys(admin, client_keys)
    if admin.sign_on is not None:
        yield from _check_sign_on(admin, admin.sign_on)
    if not admin.admits_somebody:
        return
    if admin.port and (admin.port, admin.host) == gateway:
        yield "admin.port", "is already the port of the gateway"


def admin_warnings(admin: AdminSettings) -> Findings:
    """Yield what works but is probably a mistake or a risk."""
    if not admin.enabled:
        return
    if not admin.admits_somebody and not is_loopback(admin.host):
        text = "the admin interface is off: an address that other machines can reach needs admin.key"
        yield "admin.host", f"{text}, admin.keys or admin.sign_on"
    sign_on = admin.sign_on
    if sign_on is None:
        return
    if not (sign_on.groups or sign_on.users or sign_on.default_role):
        yield "admin.sign_on", "nobody has a role: set groups, users or default_role"
    if sign_on.proxy is not None and sign_on.proxy.secret is None:
        yield "admin.sign_on.proxy.secret", "without it, every program at these addresses can sign in as anybody"


def admin_secrets(admin: AdminSettings) -> Iterator[tuple[str, Secret]]:
    """Yield the secrets of the admin interface with the paths of their settings."""
    if admin.key is not None:
        yield "admin.key", admin.key
    yield from ((f"admin.keys[{index}].key", one.key) for index, one in enumerate(admin.keys))
    sign_on = admin.sign_on
    if sign_on is not None and sign_on.proxy is not None and sign_on.proxy.secret is not None:
        yield "admin.sign_on.proxy.secret", sign_on.proxy.secret
    if sign_on is not None and sign_on.oidc is not None and sign_on.oidc.client_secret is not None:
        yield "admin.sign_on.oidc.client_secret", sign_on.oidc.client_secret


def _check_keys(admin: AdminSettings, client_keys: Sequence[Secret]) -> Findings:
    found = [] if admin.key is None else [("admin.key", admin.key)]
    names = {MAIN_KEY}
    for index, one in enumerate(admin.keys):
        path = f"admin.keys[{index}]"
        if not NAME.fullmatch(one.name):
            yield f"{path}.name", NAME_RULE
        elif one.name in names:
            yield f"{path}.name", f'"{one.name}" is used twice, or is the name of admin.key'
        names.add(one.name)
        found.append((f"{path}.key", one.key))
    for index, (path, key) in enumerate(found):
        if len(key.reveal()) < MIN_SECRET:
            yield path, f"must have at least {MIN_SECRET} characters"
        if key in client_keys:
            yield path, "must not be one of the client keys"
        same = next((other for other, one in found[:index] if one == key and key), None)
        if same is not None:
            yield path, f"is the same key as {same}"


def _check_sign_on(admin: AdminSettings, sign_on: SignOnSettings) -> Findings:
    if sign_on.proxy is None and sign_on.oidc is None:
        yield "admin.sign_on", "needs proxy or oidc"
    if sign_on.proxy is not None:
        yield from _check_proxy(sign_on.proxy)
    if sign_on.oidc is not None:
        yield from _check_oidc(sign_on.oidc)
        if not admin.public_url and not is_loopback(admin.host):
            yield "admin.public_url", "is needed for admin.sign_on.oidc: the provider sends browsers back to it"


def _check_proxy(proxy: ProxySignOn) -> Findings:
    path = "admin.sign_on.proxy"
    if not proxy.addresses:
        yield f"{path}.addresses", "needs at least one address"
    for index, address in enumerate(proxy.addresses):
        try:
            ip_network(address)
        except ValueError:
            yield f"{path}.addresses[{index}]", "must be an IP address or a network such as 10.0.0.0/24"
    for name in ("user_header", "groups_header"):
        header = getattr(proxy, name)
        if not LEGAL_NAME.fullmatch(header) or header != header.lower() or header in _TAKEN_HEADERS:
            yield f"{path}.{name}", "must be the name of a header, in lower case, that nothing else uses"
    if proxy.user_header == proxy.groups_header:
        yield f"{path}.groups_header", "must differ from user_header"
    if proxy.secret is not None and len(proxy.secret.reveal()) < MIN_SECRET:
        yield f"{path}.secret", f"must have at least {MIN_SECRET} characters"


def _check_oidc(oidc: OidcSignOn) -> Findings:
    path = "admin.sign_on.oidc"
    parts = urlsplit(oidc.issuer)
    if _bad_url(oidc.issuer) or parts.query:
        yield f"{path}.issuer", "must be an https URL without a login and without parameters"
    elif parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        yield f"{path}.issuer", "must be an https URL: others could change what http:// brings"
    if not oidc.client_id:
        yield f"{path}.client_id", "must not be empty"
    if "openid" not in oidc.scopes:
        yield f"{path}.scopes", "must contain openid"


def _bad_url(url: str) -> bool:
    return url == "demo:" or url_fault(url) is not None

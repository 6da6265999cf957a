"""The settings of the admin interface: its address, who may use it, with which role, and what is wrong with them.

The checks yield (path, text), never a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from importlib.util import find_spec
from ipaddress import ip_network
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta, Struct, field

from trilogue.base.addresses import is_loopback, url_fault
from trilogue.base.headers import LEGAL_NAME, OF_CONNECTION
from trilogue.base.problems import NAME, NAME_RULE, Findings
from trilogue.base.secrets import Secret

MAIN_KEY = "admin"
"""the name of `admin.key` in the audit log"""
MIN_SECRET = 16
"""smallest length in characters"""
_TAKEN_HEADERS = OF_CONNECTION | {"host", "cookie", "origin", "authorization", "x-api-key", "content-type"}


class AdminRole(StrEnum):
    """What somebody may do on the admin interface. Each role includes those before it."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def includes(self, least: AdminRole) -> bool:
        """Return whether this role may do what needs at least that one."""
        return _RANKS[self] >= _RANKS[least]


_RANKS = {role: rank for rank, role in enumerate(AdminRole)}


class AdminKeySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key for the admin interface with a role, for a person or a program."""

    name: str
    """whose key it is, for the audit log"""
    key: Secret
    """its text, different from all other keys: `env:NAME` or `file:path`"""
    role: AdminRole
    """viewer: sees everything but prompts and keys; operator: also changes accounts and captures requests; admin: also
    manages client keys and reads the audit log"""


class ProxySignOn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Users that a reverse proxy has signed in. It must remove these headers from what clients send."""

    addresses: tuple[str, ...]
    """where the proxy connects from: addresses or networks such as `10.0.0.0/24`; from elsewhere the headers are
    ignored"""
    user_header: str = "x-forwarded-user"
    """header with the name of the user"""
    groups_header: str = "x-forwarded-groups"
    """header with the user's groups, separated by commas"""
    secret: Secret | None = None
    """text that the proxy must send in the header `trilogue-proxy-secret`, so that other programs at its address
    cannot take its place"""


class OidcSignOn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sign-in at an OpenID Connect provider. Needs the extra `sso`: `pip install 'trilogue[sso]'`."""

    issuer: str
    """URL of the provider, under which it has `/.well-known/openid-configuration`"""
    client_id: str
    """the id under which the gateway is registered there"""
    client_secret: Secret | None = None
    """its secret; without one, the gateway is a public client"""
    scopes: tuple[str, ...] = ("openid", "email", "profile")
    """what to ask for; some providers send groups only with a scope of their own"""
    name_claim: str = "email"
    """claim with the name of the user; an email address that the provider calls unverified is refused"""
    groups_claim: str = "groups"
    """claim with the user's groups"""
    ca_file: str = ""
    """further root certificates for connections to the provider, in PEM"""


class SignOnSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Single sign-on: who signs users in, and which roles they have. Somebody without a role gets no access."""

    groups: dict[str, AdminRole] = field(default_factory=dict)
    """roles by group"""
    users: dict[str, AdminRole] = field(default_factory=dict)
    """roles by name of the user"""
    default_role: AdminRole | None = None
    """role of everybody who can sign in; default: none"""
    session_hours: Annotated[float, Meta(gt=0, le=24)] = 12.0
    """how long a browser stays signed in with `oidc`"""
    proxy: ProxySignOn | None = None
    """trust a reverse proxy that signs users in"""
    oidc: OidcSignOn | None = None
    """sign in at an OpenID Connect provider"""

    def role_of(self, user: str, groups: Iterable[str]) -> AdminRole | None:
        """Return the highest role that a user has by name, by a group, or as everybody; None if there is none."""
        found = [self.users.get(user), *(self.groups.get(group) for group in groups), self.default_role]
        return max((role for role in found if role is not None), key=_RANKS.__getitem__, default=None)


class AdminSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The admin interface: a separate listener with keys of its own."""

    enabled: bool = True
    """whether there is an admin interface"""
    key: Secret | None = None
    """its key, different from all client keys: `env:NAME` or `file:path`; default: one is generated and kept in the
    state folder, for this machine only"""
    keys: tuple[AdminKeySettings, ...] = ()
    """further keys, each with a role"""
    sign_on: SignOnSettings | None = None
    """single sign-on"""
    host: str = "127.0.0.1"
    """address to bind; anything other than loopback requires `key`, `keys` or `sign_on`"""
    port: Annotated[int, Meta(ge=0, le=65535)] = 4001
    """port to bind; 0 picks any free port, and so does a port in use if `key` is not set"""
    metrics: bool = True
    """count requests for `GET /metrics`"""
    public_url: str = ""
    """address of the admin interface for browsers, if a proxy is in front of it: `https://trilogue.example.com`"""
    keep_requests: Annotated[int, Meta(ge=0, le=100_000)] = 200
    """how many recent requests each worker remembers for `trilogue explain`; each request gets slightly slower the more
    are kept"""

    @property
    def admits_somebody(self) -> bool:
        """Whether there is a way in, apart from a key that is still to be generated."""
        signs_on = self.sign_on is not None and (self.sign_on.proxy or self.sign_on.oidc)
        return self.key is not None or bool(self.keys) or bool(signs_on)

    def all_keys(self) -> dict[str, tuple[Secret, AdminRole]]:
        """Return the keys with their roles, by name. The main key has the role admin."""
        main = {MAIN_KEY: (self.key, AdminRole.ADMIN)} if self.key is not None else {}
        return main | {one.name: (one.key, one.role) for one in self.keys}


def sign_on_problem(admin: AdminSettings) -> str | None:
    """Return why single sign-on cannot work although it is wanted, or None."""
    if not admin.enabled or admin.sign_on is None or admin.sign_on.oidc is None or find_spec("joserfc") is not None:
        return None
    return "admin.sign_on.oidc: needs joserfc, which is not installed: pip install 'trilogue[sso]'"


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

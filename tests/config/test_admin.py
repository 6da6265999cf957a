"""The settings of the admin interface: roles, keys and single sign-on."""

from __future__ import annotations

from pathlib import Path

import pytest

from trilogue.config.checks import warnings
from trilogue.config.load import parse
from trilogue.errors import ConfigError
from trilogue.gateway.admin.settings import AdminRole, SignOnSettings

KEY = "admin-key-0123456789"
OIDC = "oidc: {issuer: https://login.example, client_id: x}"


def problems(text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        parse(text.encode(), {}, Path())
    return "\n".join(str(problem) for problem in raised.value.problems)


def test_roles_include_those_before_them() -> None:
    assert [[role.includes(least) for least in AdminRole] for role in AdminRole] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


@pytest.mark.parametrize(
    ("user", "groups", "role"),
    [
        ("ada", (), "operator"),
        ("ada", ("admins",), "admin"),
        ("bob", ("staff", "unknown"), "viewer"),
        ("bob", ("unknown",), None),
        ("staff", (), None),
        ("", ("",), None),
    ],
)
def test_the_highest_role_counts(user: str, groups: tuple[str, ...], role: str | None) -> None:
    settings = SignOnSettings(
        groups={"admins": AdminRole.ADMIN, "staff": AdminRole.VIEWER}, users={"ada": AdminRole.OPERATOR}
    )
    assert settings.role_of(user, groups) == role


def test_keys_have_names_and_roles() -> None:
    text = f"admin: {{key: {KEY}, keys: [{{name: watcher, key: another-key-0123456789, role: viewer}}]}}"
    admin = parse(text.encode(), {}, Path()).admin
    assert {name: role for name, (_, role) in admin.all_keys().items()} == {"admin": "admin", "watcher": "viewer"}
    assert "0123456789" not in repr(admin)


def admin_keys(*keys: str, more: str = "") -> str:
    return f"{more}admin: {{key: {KEY}, keys: [{', '.join(f'{{{key}}}' for key in keys)}]}}"


PROBLEMS = {
    "no role": (admin_keys("name: a, key: key-0123456789-01"), "admin.keys[0].role: is required"),
    "unknown role": (
        admin_keys("name: a, key: key-0123456789-01, role: root"),
        "must be one of viewer, operator, admin",
    ),
    "short": (admin_keys("name: a, key: short, role: viewer"), "admin.keys[0].key: must have at least 16 characters"),
    "same key": (admin_keys(f"name: a, key: {KEY}, role: viewer"), "admin.keys[0].key: is the same key as admin.key"),
    "taken name": (admin_keys("name: admin, key: key-0123456789-01, role: viewer"), "admin.keys[0].name"),
    "bad name": (admin_keys("name: a b, key: key-0123456789-01, role: viewer"), "admin.keys[0].name"),
    "client key": (
        admin_keys("name: a, key: key-0123456789-01, role: viewer", more="keys: [key-0123456789-01]\n"),
        "admin.keys[0].key: must not be one of the client keys",
    ),
    "nothing to sign on with": ("admin: {sign_on: {default_role: viewer}}", "admin.sign_on: needs proxy or oidc"),
    "no address": ("admin: {sign_on: {proxy: {addresses: []}}}", "addresses: needs at least one"),
    "bad address": ("admin: {sign_on: {proxy: {addresses: [proxy.lan]}}}", "addresses[0]: must be an IP address"),
    "bits of a host": ("admin: {sign_on: {proxy: {addresses: [10.0.0.1/8]}}}", "addresses[0]: must be an IP address"),
    "header of others": (
        "admin: {sign_on: {proxy: {addresses: [10.0.0.1], user_header: authorization}}}",
        "user_header: must be the name of a header",
    ),
    "capitals": (
        "admin: {sign_on: {proxy: {addresses: [10.0.0.1], user_header: X-User}}}",
        "user_header: must be the name of a header, in lower case",
    ),
    "one header": (
        "admin: {sign_on: {proxy: {addresses: [10.0.0.1], user_header: x-u, groups_header: x-u}}}",
        "groups_header: must differ",
    ),
    "short secret": (
        "admin: {sign_on: {proxy: {addresses: [10.0.0.1], secret: short}}}",
        "proxy.secret: must have at least 16 characters",
    ),
    "http issuer": ("admin: {sign_on: {oidc: {issuer: http://login.example, client_id: x}}}", "must be an https URL"),
    "no issuer": ("admin: {sign_on: {oidc: {client_id: x}}}", "oidc.issuer: is required"),
    "no scope": (
        "admin: {sign_on: {oidc: {issuer: https://login.example, client_id: x, scopes: [email]}}}",
        "scopes: must contain openid",
    ),
    "no way back": (f"admin: {{host: 0.0.0.0, sign_on: {{{OIDC}}}}}", "admin.public_url: is needed"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_problems(name: str) -> None:
    text, expected = PROBLEMS[name]
    assert expected in problems(text)


def warned(text: str) -> set[str]:
    return {path for path, _ in warnings(parse(text.encode(), {}, Path())) if path.startswith("admin")}


def test_warnings() -> None:
    assert warned(f"admin: {{sign_on: {{{OIDC}}}}}") == {"admin.sign_on"}
    trusting = "admin: {sign_on: {default_role: viewer, proxy: {addresses: [10.0.0.1]}}}"
    assert warned(trusting) == {"admin.sign_on.proxy.secret"}
    assert warned("admin: {host: 0.0.0.0}") == {"admin.host"}
    assert warned(trusting.replace("{sign_on", "{host: 0.0.0.0, sign_on")) == {"admin.sign_on.proxy.secret"}

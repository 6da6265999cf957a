"""Sign-in at an OpenID Connect provider, on loopback with real keys: what works, and everything that must not."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from hashlib import sha256
from urllib.parse import urlsplit

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from msgspec.structs import replace

from tests.gateway.oidc import CLIENT_ID, CLIENT_SECRET, Claims, Provider, provider, unsigned
from tests.gateway.pooling import ADMIN, Pooled, accepting, config, pooled, ranked
from tests.scripted import thread
from trilogue.base.secrets import Secret
from trilogue.gateway.admin import oidc_provider
from trilogue.gateway.admin.id_tokens import ALGORITHMS
from trilogue.gateway.admin.oidc_provider import CodeGrant, OidcProvider, ProviderError
from trilogue.gateway.admin.settings import OidcSignOn

SIGN_ON = """\
admin:
  key: env:ADMIN_KEY
  port: 0
  sign_on:
    groups: {ops: operator, staff: viewer}
    users: {root@example.com: admin}
    oidc: {issuer: ISSUER, client_id: CLIENT, client_secret: env:OIDC_SECRET}
"""


@pytest.fixture(scope="module")
def issuer() -> Iterator[Provider]:
    with provider() as made:
        yield made


@pytest.fixture(scope="module")
def gateway(issuer: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    settings = SIGN_ON.replace("ISSUER", issuer.url).replace("CLIENT", CLIENT_ID)
    text = config(ranked("one"), workers=2).replace(ADMIN, settings)
    environ = {"OIDC_SECRET": CLIENT_SECRET}
    folder = tmp_path_factory.mktemp("oidc")
    with thread.running(accepting("one")) as up, pooled(folder, text, up, environ=environ) as pool:
        yield pool


@pytest.fixture
def browser(gateway: Pooled, issuer: Provider) -> Iterator[httpx2.Client]:
    issuer.reset()
    url = str(gateway.admin.base_url).rstrip("/")
    with httpx2.Client(base_url=url, headers={"origin": url, "trilogue-console": "1"}, timeout=20) as client:
        yield client


def returned(browser: httpx2.Client) -> str:
    """Go to the provider and return the address that it sends the browser to."""
    begun = browser.get("/console/sign-on")
    assert begun.status_code == 303
    assert "SameSite=Lax" in begun.headers["set-cookie"]
    assert "HttpOnly" in begun.headers["set-cookie"]
    return httpx2.get(begun.headers["location"]).headers["location"]


def signed_in(browser: httpx2.Client) -> httpx2.Response:
    """Go through the whole flow."""
    return browser.get(returned(browser))


def refused(browser: httpx2.Client, reply: httpx2.Response, code: str) -> None:
    assert (reply.status_code, reply.headers["location"]) == (303, f"../?problem={code}")
    assert not any(cookie.startswith("trilogue_session_") for cookie in reply.headers.get_list("set-cookie"))
    assert browser.get("/accounts").status_code == 401


@pytest.mark.parametrize(
    ("user", "role", "statuses"),
    [
        ({"groups": ["staff", "others"]}, "viewer", (200, 403, 403)),
        ({"groups": ["staff", "ops"]}, "operator", (200, 200, 403)),
        ({"groups": "ops"}, "operator", (200, 200, 403)),
        ({"email": "root@example.com"}, "admin", (200, 200, 200)),
    ],
)
def test_claims_become_a_role(
    browser: httpx2.Client, issuer: Provider, user: Claims, role: str, statuses: tuple[int, ...]
) -> None:
    issuer.user |= user
    reply = signed_in(browser)
    assert (reply.status_code, reply.headers["location"]) == (303, "../")
    session = next(one for one in reply.headers.get_list("set-cookie") if one.startswith("trilogue_session_"))
    assert all(part in session for part in ("HttpOnly", "SameSite=Strict", "Path=/"))
    name = issuer.user["email"]
    assert browser.get("/me").json() == {"name": name, "role": role, "via": "oidc"}
    assert browser.get("/console/session").json()["signed_in"]
    for _ in range(4):  # at any worker
        paths = browser.get("/accounts"), browser.post("/accounts/chat/one/reset"), browser.get("/keys")
        assert tuple(one.status_code for one in paths) == statuses
    no_origin = httpx2.post(browser.base_url.join("/accounts/chat/one/reset"), cookies=dict(browser.cookies))
    assert no_origin.json()["error"]["code"] == ("forbidden_origin")
    browser.delete("/console/session")
    assert browser.get("/accounts").status_code == 401


def test_the_sign_in_is_audited_and_uses_pkce(gateway: Pooled, browser: httpx2.Client, issuer: Provider) -> None:
    issuer.user["groups"] = ["ops"]
    signed_in(browser)
    browser.post("/accounts/chat/one/reset")
    [reset, entry] = gateway.admin.get("/audit", params={"who": "ada@example.com", "limit": 2}).json()["entries"]
    assert (entry["what"], entry["via"], entry["after"]) == ("sign in", "oidc", {"role": "operator"})
    assert (reset["what"], reset["via"], reset["subject"]) == ("reset account", "oidc", "chat/one")
    asked = issuer.asked[-1]
    assert (asked["code_challenge_method"], asked["response_type"]) == ("S256", "code")
    assert asked["redirect_uri"] == str(browser.base_url.join("/console/sign-on/callback"))
    assert len({one["state"] for one in issuer.asked}) == len(issuer.asked)
    assert CLIENT_SECRET not in gateway.gateway.log


def with_public_key_as_secret(issuer: Provider) -> str:
    """Return a token that is signed with HMAC and the public key, which a careless check would accept."""
    claims = {"iss": issuer.url, "aud": CLIENT_ID, "sub": "1", "email": "root@example.com"}
    parts = [{"alg": "HS256", "kid": issuer.key.kid}, claims]
    head = ".".join(urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    code = hmac.digest(issuer.key.as_pem(private=False), head.encode(), sha256)
    return f"{head}.{urlsafe_b64encode(code).rstrip(b'=').decode()}"


LIES: dict[str, tuple[Claims, str]] = {
    "wrong nonce": ({"nonce": "another"}, "InvalidClaimError nonce"),
    "no nonce": ({"nonce": None}, "MissingClaimError nonce"),
    "wrong audience": ({"aud": "another-client"}, "InvalidClaimError aud"),
    "among several audiences": ({"aud": [CLIENT_ID, "another-client"]}, "for another client"),
    "another party": ({"azp": "another-client"}, "for another client"),
    "wrong issuer": ({"iss": "https://evil.example"}, "InvalidClaimError iss"),
    "expired": ({"exp": 1_700_000_000}, "ExpiredTokenError"),
    "no expiry": ({"exp": None}, "MissingClaimError exp"),
    "from the future": ({"iat": 4_000_000_000}, "ID token is not valid: Invalid"),
    "no subject": ({"sub": None}, "MissingClaimError sub"),
    "no name": ({"email": None}, "no usable claim email"),
    "unverified email": ({"email_verified": False}, "not verified the email"),
}
"""what the token says, and what the log says about it"""


@pytest.mark.parametrize("lie", LIES)
def test_wrong_claims_are_refused(gateway: Pooled, browser: httpx2.Client, issuer: Provider, lie: str) -> None:
    issuer.user["groups"] = ["ops"]
    issuer.changed, reason = LIES[lie]
    refused(browser, signed_in(browser), "sign_on_failed")
    gateway.gateway.wait_for_log(reason)


def test_tokens_that_the_provider_did_not_sign_are_refused(
    gateway: Pooled, browser: httpx2.Client, issuer: Provider
) -> None:
    issuer.user["groups"] = ["ops"]
    own = RSAKey.generate_key(2048, {"kid": str(issuer.key.kid)})
    forgeries = (
        unsigned,
        lambda claims: jwt.encode({"alg": "RS256", "kid": own.kid}, claims, own),
        lambda claims: with_public_key_as_secret(issuer),
        lambda claims: "not a token",
    )
    for forge in forgeries:
        issuer.forge = forge
        refused(browser, signed_in(browser), "sign_on_failed")
    for reason in ("UnsupportedAlgorithmError", "BadSignatureError", "DecodeError"):
        gateway.gateway.wait_for_log(reason)
    assert not {"none", "HS256", "HS384", "HS512"} & set(ALGORITHMS)


def test_somebody_without_a_role_gets_no_session(browser: httpx2.Client, issuer: Provider) -> None:
    issuer.user["groups"] = ["others"]
    refused(browser, signed_in(browser), "no_role")


def test_a_state_belongs_to_one_browser_and_works_once(browser: httpx2.Client, issuer: Provider) -> None:
    issuer.user["groups"] = ["ops"]
    address = returned(browser)
    with httpx2.Client(headers=browser.headers, base_url=browser.base_url) as other:
        refused(other, other.get(address), "sign_on_expired")
        other.get("/console/sign-on")
        refused(other, other.get(address), "sign_on_expired")
    kept = dict(browser.cookies)
    assert browser.get(address).headers["location"] == "../"
    browser.cookies.clear()
    refused(browser, browser.get(address), "sign_on_expired")
    for _ in range(4):  # whichever worker gets it; the cookie of the first time is there again
        refused(browser, httpx2.get(address, cookies=kept), "sign_on_expired")
    broken = {name: value[:-4] + "AAAA" for name, value in kept.items()}
    refused(browser, httpx2.get(address, cookies=broken), "sign_on_expired")


@pytest.mark.parametrize(
    "answer",
    [{"code": ""}, {"error": "access_denied", "code": ""}, {"iss": "https://evil.example"}, {"code": "guessed"}],
    ids=["no code", "denied", "another issuer", "a wrong code"],
)
def test_other_answers_of_the_provider_are_refused(
    browser: httpx2.Client, issuer: Provider, answer: dict[str, str]
) -> None:
    issuer.user["groups"] = ["ops"]
    issuer.answer = answer
    refused(browser, signed_in(browser), "sign_on_failed")


def test_no_parameter_sends_the_browser_elsewhere(browser: httpx2.Client, issuer: Provider) -> None:
    issuer.user["groups"] = ["ops"]
    more = "&next=https://evil.example&redirect_uri=https://evil.example&return_to=//evil.example"
    begun = browser.get(f"/console/sign-on?{more}")
    target = urlsplit(begun.headers["location"])
    assert f"{target.scheme}://{target.netloc}" == issuer.url
    assert "evil" not in begun.headers["location"]
    back = httpx2.get(begun.headers["location"]).headers["location"]
    assert browser.get(back + more).headers["location"] == "../"
    rebound = browser.get("/console/sign-on", headers={"host": "evil.example"})
    assert rebound.json()["error"]["code"] == "forbidden_host"


def test_new_keys_of_the_provider_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def claims(asked: OidcProvider, number: int) -> Claims:
        verifier = f"verifier-{number}"
        challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        back = made.authorize({"redirect_uri": "r", "state": "s", "nonce": "n", "code_challenge": challenge})
        code = back.partition("code=")[2].partition("&")[0]
        return await asked.claims(CodeGrant(code, verifier, "r", "n"))

    async def check() -> None:
        asked = OidcProvider(OidcSignOn(issuer=made.url, client_id=CLIENT_ID, client_secret=Secret(CLIENT_SECRET)))
        assert (await claims(asked, 1))["email"] == "ada@example.com"
        made.rotate()
        # Bad tokens must not make a gateway ask the provider all the time.
        with pytest.raises(ProviderError, match="unknown key"):
            await claims(asked, 2)
        assert made.key_reads == 1
        monkeypatch.setattr(oidc_provider, "AGAIN_SECONDS", -1.0)
        assert (await claims(asked, 3))["email"] == "ada@example.com"
        assert made.key_reads == 2

    with provider() as made:
        asyncio.run(check())


def test_a_provider_that_cannot_be_trusted_is_not_used() -> None:
    async def fails(settings: OidcSignOn, reason: str) -> None:
        with pytest.raises(ProviderError, match=reason):
            await OidcProvider(settings).endpoint("authorization_endpoint")

    with provider() as made:
        right = OidcSignOn(issuer=made.url, client_id=CLIENT_ID)
        asyncio.run(fails(replace(right, issuer=f"{made.url}/"), "another issuer"))
        asyncio.run(fails(replace(right, issuer=f"{made.url}/nothing"), "status 404"))
        made.described = {"authorization_endpoint": "ftp://x"}
        asyncio.run(fails(right, "no usable"))
    asyncio.run(fails(right, "cannot be asked"))


def test_a_forged_session_is_worth_nothing(browser: httpx2.Client, issuer: Provider) -> None:
    issuer.user["groups"] = ["staff"]
    signed_in(browser)
    [(name, token)] = [one for one in browser.cookies.items() if one[0].startswith("trilogue_session_")]
    session = {"via": "oidc", "name": "root@example.com", "ends": int(time.time()) + 600, "groups": []}
    payload = urlsafe_b64encode(json.dumps(session).encode()).rstrip(b"=").decode()
    forged = {name: f"{payload}.{token.partition('.')[2]}"}
    assert httpx2.get(browser.base_url.join("/accounts"), cookies=forged).status_code == 401

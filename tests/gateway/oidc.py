"""An OpenID Connect provider on loopback, with keys of its own. It approves everybody, and can be made to lie."""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

CLIENT_ID = "trilogue-console"
CLIENT_SECRET = "oidc-secret-canary-5b1f"

Claims = dict[str, Any]


def unsigned(claims: Claims) -> str:
    """Return a token without a signature."""
    parts = [{"alg": "none", "typ": "JWT"}, claims]
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."


@dataclass
class Provider:
    """One provider. `user`: claims of whoever signs in. `forge`: makes the token, in place of the provider."""

    url: str = ""
    user: Claims = field(default_factory=lambda: {"sub": "1", "email": "ada@example.com", "email_verified": True})
    changed: Claims = field(default_factory=dict)
    """claims that the token has in place of the right ones; None leaves one out"""
    forge: Callable[[Claims], str] | None = None
    answer: dict[str, str] = field(default_factory=dict)
    """what the browser brings back in place of the code and the state"""
    described: Claims = field(default_factory=dict)
    """what it says about itself in place of the truth"""
    key: RSAKey | ECKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one", "use": "sig"}))
    asked: list[dict[str, str]] = field(default_factory=list)
    """the parameters with which browsers came"""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    key_reads: int = 0

    def reset(self) -> None:
        self.user = {"sub": "1", "email": "ada@example.com", "email_verified": True}
        self.changed, self.forge, self.answer = {}, None, {}

    def rotate(self) -> None:
        self.key = ECKey.generate_key("P-256", {"kid": secrets.token_hex(4), "use": "sig"})

    def metadata(self) -> Claims:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            **self.described,
        }

    def keys(self) -> Claims:
        self.key_reads += 1
        return {"keys": [{"kty": "oct", "k": "AAAA", "kid": "shared"}, self.key.as_dict(private=False)]}

    def authorize(self, query: dict[str, str]) -> str:
        """Return where the browser goes: back, with a code."""
        self.asked.append(query)
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        back = {"code": code, "state": query["state"], **self.answer}
        return f"{query['redirect_uri']}?{urlencode({name: value for name, value in back.items() if value})}"

    def token(self, form: dict[str, str], authorization: str) -> tuple[int, Claims]:
        """Return the tokens for a code, once, if all proofs are right."""
        login = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        query = self.codes.pop(form.get("code", ""), None)
        challenge = base64.urlsafe_b64encode(sha256(form.get("code_verifier", "").encode()).digest()).rstrip(b"=")
        if (
            query is None
            or authorization != f"Basic {login}"
            or challenge.decode() != query["code_challenge"]
            or form.get("redirect_uri") != query["redirect_uri"]
        ):
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": query["nonce"]}
        claims = {**claims, **self.user, **self.changed}
        claims = {name: value for name, value in claims.items() if value is not None}
        return 200, {"token_type": "Bearer", "access_token": "unused", "id_token": self._signed(claims)}

    def _signed(self, claims: Claims) -> str:
        if self.forge is not None:
            return self.forge(claims)
        algorithm = "ES256" if isinstance(self.key, ECKey) else "RS256"
        return jwt.encode({"alg": algorithm, "kid": self.key.kid}, claims, self.key)


@contextmanager
def provider() -> Iterator[Provider]:
    """Run a provider."""
    made = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/authorize":
                self.send_response(302)
                self.send_header("location", made.authorize(_first(parts.query)))
                self.send_header("content-length", "0")
                self.end_headers()
                return
            pages = {"/.well-known/openid-configuration": made.metadata, "/jwks": made.keys}
            self._reply(200, pages[parts.path]()) if parts.path in pages else self._reply(404, {})

        def do_POST(self) -> None:
            form = _first(self.rfile.read(int(self.headers["content-length"])).decode())
            self._reply(*made.token(form, self.headers.get("authorization", "")))

        def _reply(self, status: int, body: Claims) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _first(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}

"""The samples for nginx and Caddy with the real servers: TLS, streams as they come, large bodies, clients that leave.

Skipped where the server is not installed.
"""

from __future__ import annotations

import datetime
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.gateway.running import CLIENT_KEY, CONFIG, Gateway, running
from tests.gateway.wire import is_refused
from tests.scripted import thread
from tests.scripted.server import ScriptedUpstream
from tests.timing import eventually

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
HOST = "trilogue.example.com"
SBIN = "/usr/sbin:/usr/local/sbin"
"""where Debian installs nginx, which is not on every user's PATH"""
NGINX = shutil.which("nginx") or shutil.which("nginx", path=SBIN)
CADDY = shutil.which("caddy")


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with thread.running() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def gateway(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("gateway"), CONFIG, up.url) as started:
        yield started


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def certificate(folder: Path) -> None:
    """Write a certificate for the sample's host, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now)
    signed = builder.not_valid_after(now + datetime.timedelta(days=1)).sign(key, hashes.SHA256())
    (folder / "trilogue.crt").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "trilogue.key").write_bytes(secret)


def trusting(folder: Path) -> ssl.SSLContext:
    """Trust the certificate of this folder, if there is one, whatever the address is."""
    context = ssl.create_default_context()
    context.check_hostname = False
    if (folder / "trilogue.crt").exists():
        context.load_verify_locations(folder / "trilogue.crt")
    return context


@contextmanager
def nginx(folder: Path, gateway: str) -> Iterator[str]:
    """Run nginx with the sample, on a free port and with a certificate of its own."""
    certificate(folder)
    port = free_port()
    site = (DEPLOY / "nginx.conf").read_text("utf-8")
    site = site.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl").replace("/etc/nginx/", f"{folder}/")
    site = site.replace("127.0.0.1:4000", gateway.removeprefix("http://"))
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    # Workers of root's nginx would run as `nobody`, who cannot write into this folder.
    config = "user root;\n" if os.geteuid() == 0 else ""
    config += f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\nevents {{}}\n"
    config += f"http {{ access_log off;\n{paths}{site}}}\n"
    (folder / "nginx.conf").write_text(config)
    command = [NGINX or "nginx", "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")]
    with _server(command, port):
        yield f"https://127.0.0.1:{port}"


@contextmanager
def caddy(folder: Path, gateway: str) -> Iterator[str]:
    """Run Caddy with the sample, on a free port and without TLS: it would ask for a certificate."""
    port = free_port()
    site = (DEPLOY / "Caddyfile").read_text("utf-8").replace("127.0.0.1:4000", gateway.removeprefix("http://"))
    text = "{\n\tadmin off\n\tauto_https off\n}\n" + site.replace(HOST, f"http://127.0.0.1:{port}")
    (folder / "Caddyfile").write_text(text)
    command = [CADDY or "caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]
    with _server(command, port, XDG_CONFIG_HOME=str(folder), XDG_DATA_HOME=str(folder)):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _server(command: list[str], port: int, **environ: str) -> Iterator[None]:
    silent = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=silent, stderr=silent, env={**os.environ, **environ})
    try:
        eventually(lambda: not is_refused(("127.0.0.1", port)))
        yield
    finally:
        process.terminate()
        process.wait(30)


SERVERS = [
    pytest.param(nginx, marks=pytest.mark.skipif(NGINX is None, reason="nginx is not installed"), id="nginx"),
    pytest.param(caddy, marks=pytest.mark.skipif(CADDY is None, reason="Caddy is not installed"), id="caddy"),
]


@pytest.fixture(scope="module", params=SERVERS)
def client(
    request: pytest.FixtureRequest, gateway: Gateway, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx2.Client]:
    """A client of the gateway behind the proxy."""
    folder = tmp_path_factory.mktemp("proxy")
    folder.chmod(0o755)
    with request.param(folder, gateway.url) as url:
        headers = {"authorization": f"Bearer {CLIENT_KEY}", "host": HOST if url.startswith("https") else url[7:]}
        with httpx2.Client(base_url=url, headers=headers, verify=trusting(folder), timeout=20, trust_env=False) as made:
            yield made


def body(model: str, text: str = "Hi", *, stream: bool = True) -> dict[str, object]:
    return {"model": model, "messages": [{"role": "user", "content": text}], "stream": stream}


def test_a_whole_response(client: httpx2.Client) -> None:
    response = client.post("/v1/chat/completions", json=body("messages/text", stream=False))
    assert response.status_code == 200
    assert response.json()["choices"][0]["finish_reason"] == "stop"


def test_events_arrive_one_by_one(client: httpx2.Client) -> None:
    """The stream takes a second; a proxy that buffers would deliver it all at the end."""
    start = time.monotonic()
    with client.stream("POST", "/v1/chat/completions", json=body("messages/slow-20-50")) as response:
        times = [time.monotonic() - start for _ in response.iter_raw()]
    assert times[-1] > 0.9
    assert times[0] < 0.5
    assert len(times) >= 10


def test_large_requests_pass(client: httpx2.Client) -> None:
    response = client.post("/v1/chat/completions", json=body("chat/text", "x" * 20_000_000, stream=False))
    assert response.status_code == 200, response.text


def test_a_client_that_leaves_ends_the_request_upstream(client: httpx2.Client, up: ScriptedUpstream) -> None:
    with client.stream("POST", "/v1/chat/completions", json=body("messages/slow-400-20")) as response:
        next(response.iter_raw())
    sent = up.last()
    eventually(lambda: sent.closed is not None)
    assert not sent.complete


def test_errors_pass(client: httpx2.Client) -> None:
    response = client.post("/v1/chat/completions", json=body("chat/error-429", stream=False))
    assert response.status_code == 429
    assert response.headers["retry-after"] == "7"

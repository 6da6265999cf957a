"""PostgreSQL away, paused, killed, demoted, slow and cut off: who needs it waits or is told, nobody else notices."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from tests.gateway.process import until
from tests.gateway.running import CLIENT_KEY
from tests.gateway.test_store_at_start import refused
from tests.machines.engines import PASSWORD, BadLink, NetworkServer, Standby, bad_link, name_in, tls_link
from tests.machines.nodes import Cluster, cluster
from tests.timing import pass_time

pytestmark = pytest.mark.slow

DEMO = """\
keys: [{key: env:TRILOGUE_KEY, name: one}]
providers: {demo: {protocol: openai_responses, base_url: "demo:"}}
"""
QUICK_SECONDS = 5.0
"""What a request without state may take while PostgreSQL does not respond. It takes some milliseconds; tests are run
on busy machines. Those that wait for PostgreSQL take longer than that."""
BACK_SECONDS = 60.0


class Clients:
    """A client of each of two gateways."""

    def __init__(self, running: Cluster, stack: ExitStack) -> None:
        headers = {"authorization": f"Bearer {CLIENT_KEY}"}
        self.each = [
            stack.enter_context(httpx2.Client(base_url=node.url, headers=headers, timeout=60)) for node in running.nodes
        ]

    def ask(self, number: int, *, store: bool, previous: str = "") -> httpx2.Response:
        """Send a request to one of the gateways."""
        body = {"model": "demo", "input": "Hello", "store": store, "previous_response_id": previous or None}
        return self.each[number].post("/v1/responses", json=body)

    def stored(self, number: int) -> str:
        """Store a response and return its id."""
        response = self.ask(number, store=True)
        assert response.status_code == 200, response.text
        return str(response.json()["id"])

    def works(self) -> bool:
        """Return whether both gateways can read what the other has stored."""
        made = [self.ask(number, store=True) for number in range(2)]
        if any(one.status_code != 200 for one in made):
            return False
        ids = [one.json()["id"] for one in made]
        return all(self.each[1 - number].get(f"/v1/responses/{ids[number]}").status_code == 200 for number in range(2))

    def check_stateless(self) -> None:
        """Check that requests without state do not wait."""
        for number in range(2):
            began = time.monotonic()
            assert self.ask(number, store=False).status_code == 200
            chat = {"model": "demo", "messages": [{"role": "user", "content": "Hello"}]}
            assert self.each[number].post("/v1/chat/completions", json=chat).status_code == 200
            assert time.monotonic() - began < QUICK_SECONDS


class Faulty:
    """Two gateways whose database can fail. `link`: between them and the server."""

    def __init__(self, server: NetworkServer, link: BadLink, running: Cluster) -> None:
        self.server = server
        self.link = link
        self.running = running


@pytest.fixture(scope="module")
def _faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faulty]:
    server = NetworkServer()
    server.start()
    try:
        with bad_link(server.port) as (link, port):
            url = server.network_url(server.new_database(), port)
            with cluster(tmp_path_factory.mktemp("faulty"), 2, f"state: {url}\n{DEMO}", "") as running:
                yield Faulty(server, link, running)
    finally:
        server.remove()


@pytest.fixture
def faulty(_faulty: Faulty) -> Iterator[tuple[Faulty, Clients]]:
    """Two gateways that work, and their clients."""
    with ExitStack() as stack:
        clients = Clients(_faulty.running, stack)
        until(clients.works, BACK_SECONDS)
        yield _faulty, clients


def kill(faulty: Faulty, seconds: float) -> None:
    faulty.server.kill()
    pass_time(seconds)
    faulty.server.start()


def pause(faulty: Faulty, seconds: float) -> None:
    faulty.server.pause()
    pass_time(seconds)
    faulty.server.resume()


def split(faulty: Faulty, seconds: float) -> None:
    faulty.link.cut = True
    pass_time(seconds)
    faulty.link.cut = False


def demote(faulty: Faulty, seconds: float) -> None:
    faulty.server.set_read_only(True)
    pass_time(seconds)
    faulty.server.set_read_only(False)


Fault = Callable[[Faulty, float], None]
FAULTS: list[Fault] = [kill, pause, split, demote]


def suffer(faulty: Faulty, clients: Clients, fault: Fault, seconds: float) -> None:
    """Let a fault happen, and check that nothing is lost and nobody waits who need not."""
    before = [clients.stored(number) for number in range(2)]

    def ended() -> bool:
        clients.check_stateless()
        return not worker.is_alive()

    worker = _thread(lambda: fault(faulty, seconds))
    until(ended, seconds + BACK_SECONDS)
    until(clients.works, BACK_SECONDS)
    for number in range(2):
        assert clients.ask(1 - number, store=True, previous=before[number]).status_code == 200


def _thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("fault", FAULTS)
def test_a_short_fault(faulty: tuple[Faulty, Clients], fault: Fault) -> None:
    """Requests with state during it wait and succeed; the gateways are not restarted."""
    running, clients = faulty
    suffer(running, clients, fault, 1.0)
    assert "Traceback" not in running.running.logs


@pytest.mark.parametrize("fault", FAULTS)
def test_ten_seconds(faulty: tuple[Faulty, Clients], fault: Fault) -> None:
    running, clients = faulty
    suffer(running, clients, fault, 10.0)
    assert "Traceback" not in running.running.logs


def test_a_slow_server_delays_nobody_else(faulty: tuple[Faulty, Clients]) -> None:
    running, clients = faulty
    running.link.delay = 0.1
    try:
        began = time.monotonic()
        identifier = clients.stored(0)
        assert time.monotonic() - began > running.link.delay
        clients.check_stateless()
        assert clients.each[1].get(f"/v1/responses/{identifier}").status_code == 200
    finally:
        running.link.delay = 0.0


@pytest.mark.parametrize("fault", ["away", "paused"])
def test_requests_that_need_it_are_told(faulty: tuple[Faulty, Clients], fault: str) -> None:
    """A clear error in the client's protocol, after some seconds, without a word about the database."""
    running, clients = faulty
    identifier = clients.stored(0)
    running.server.kill() if fault == "away" else running.server.pause()
    try:
        for response in (
            clients.ask(0, store=True),
            clients.ask(1, store=False, previous=identifier),
            clients.each[0].get(f"/v1/responses/{identifier}"),
        ):
            assert (response.status_code, response.json()["error"]["code"]) == (503, "store_unavailable")
            assert "postgres" not in response.text
        clients.check_stateless()
    finally:
        running.server.start() if fault == "away" else running.server.resume()
    until(clients.works, BACK_SECONDS)


def test_a_standby_takes_over(tmp_path: Path) -> None:
    """The gateways know both servers, find the one that can be written to, and lose nothing. Nobody restarts them."""
    with ExitStack() as stack:
        primary = NetworkServer()
        stack.callback(primary.remove)
        primary.start()
        name = name_in(primary.new_database())
        standby = Standby(primary)
        stack.callback(standby.remove)
        standby.start()
        url = f"postgresql://postgres@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/{name}"
        running = stack.enter_context(cluster(tmp_path, 2, f"state: {url}\n{DEMO}", ""))
        clients = Clients(running, stack)
        before = [clients.stored(number) for number in range(2)]
        until(standby.has_caught_up, BACK_SECONDS)
        primary.kill()
        clients.check_stateless()
        standby.promote()
        until(clients.works, BACK_SECONDS)
        for number in range(2):
            assert clients.ask(1 - number, store=True, previous=before[number]).status_code == 200


def test_tls_and_a_password(tmp_path: Path) -> None:
    """With `verify-full`. The password is in no log, in no file and in no error."""
    server = NetworkServer(password=True)
    server.start()
    try:
        with tls_link(server.port, tmp_path) as (port, root), ExitStack() as stack:
            url = server.new_user_database(port)
            secure = f"{url}?sslmode=verify-full&sslrootcert={root}"
            environ = {"DATABASE": secure}
            running = stack.enter_context(cluster(tmp_path, 2, f"state: env:DATABASE\n{DEMO}", "", environ))
            clients = Clients(running, stack)
            assert clients.works()
            server.stop()
            clients.check_stateless()
            server.start()
            until(clients.works, BACK_SECONDS)
            texts = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
            assert not any(PASSWORD.encode() in text for text in texts)
            wrong = {
                f"{url}?sslmode=verify-full&sslrootcert={tmp_path}/none.pem": "(sslrootcert) cannot be read",
                secure.replace("127.0.0.1", "localhost"): "is not trusted",
                secure.replace(PASSWORD, "wrong-canary"): "does not accept the user or the password",
                server.new_user_database() + "?sslmode=require": "has no TLS",
            }
            for bad, reason in wrong.items():
                line = refused(tmp_path, "state: env:DATABASE\n", DATABASE=bad)
                assert reason in line
                assert PASSWORD not in line
                assert "wrong-canary" not in line
    finally:
        server.remove()

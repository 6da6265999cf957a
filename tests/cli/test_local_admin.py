"""The admin interface without settings: its generated key, how commands find it, and who else can."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import click
import pytest

from tests.gateway.running import running
from trilogue.app.cli.admin_client import AdminClient, AdminRequestFailed, admin_client
from trilogue.app.cli.local_admin import address_file, generated_key, key_file, read_key, write_address

CONFIG = """\
server: {log: {level: debug}}
providers: {demo: {protocol: openai_responses, base_url: "demo:"}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for the configuration and the state of a user."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("TRILOGUE_ADMIN_KEY", raising=False)
    return tmp_path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_two_gateways_without_settings(folder: Path) -> None:
    """Both start, commands find each by its configuration file, and nobody without the key gets anything."""
    other = folder / "other"
    other.mkdir()
    with (
        running(folder, CONFIG, "") as first,
        running(other, CONFIG, "", {"XDG_STATE_HOME": str(folder)}),
    ):
        client, second = (admin_client(str(where / "trilogue.yaml"), None) for where in (folder, other))
        assert client.url != second.url
        assert first.process.stdout is not None
        printed = [first.process.stdout.readline() for _ in range(2)]
        assert printed[1] == f"Console: {client.url} (sign in with the key in {key_file()})\n"
        key = key_file().read_text().strip()
        assert len(key) > 40
        assert (mode(key_file()), mode(address_file(folder / "trilogue.yaml"))) == (0o600, 0o600)
        for asked in (client, second):
            assert [one["account"] for one in asked.get("/accounts")["accounts"]] == ["demo"]
            assert asked.url.startswith("http://127.0.0.1:")
        assert client.post("/accounts/demo/demo/disable")["state"] == "disabled"
        with pytest.raises(AdminRequestFailed) as refused:
            client.get("/no/such/path")
        assert (refused.value.status, refused.value.code) == (404, "not_found")
        with pytest.raises(AdminRequestFailed, match="does not accept this admin key") as wrong:
            AdminClient(client.url, "another-key").get("/accounts")
        assert wrong.value.status == 401
        assert key not in first.log_file.read_text()
        assert first.http.get("/v1/models").status_code == 200
    assert not address_file(folder / "trilogue.yaml").exists()
    with pytest.raises(AdminRequestFailed, match="no gateway listens at"):
        client.get("/accounts")


def test_a_key_that_others_could_read_is_replaced(folder: Path) -> None:
    first = generated_key()
    assert generated_key() == first
    key_file().chmod(0o644)
    assert read_key() is None
    second = generated_key()
    assert second != first
    assert mode(key_file()) == 0o600


def test_the_address_of_a_killed_gateway_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "trilogue.yaml").write_text("admin: {key: admin-key-0123456789, port: 4321}\n")
    assert admin_client(None, None).url == "http://127.0.0.1:4321"
    write_address(Path("trilogue.yaml"), "http://127.0.0.1:9")
    assert admin_client(None, None).url == "http://127.0.0.1:9"
    address_file(Path("trilogue.yaml")).write_text('{"url":"http://127.0.0.1:9","pid":4194999}')
    assert admin_client(None, None).url == "http://127.0.0.1:4321"


OFF = {
    "admin: {enabled: false}": "the admin interface is off: remove",
    "admin: {host: 0.0.0.0}": "needs `admin.key`",
    "admin: {key: env:NO_SUCH_VARIABLE}": "admin.key: the secret that the configuration refers to cannot be found",
    "server: {port: 4000}": "no gateway has run here yet",
}


@pytest.mark.parametrize("config", OFF)
def test_what_to_do_if_there_is_no_key(folder: Path, config: str) -> None:
    (folder / "trilogue.yaml").write_text(config)
    with pytest.raises(AdminRequestFailed, match=OFF[config]):
        admin_client(None, None)


def test_another_gateway_by_its_url(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(click.UsageError, match="TRILOGUE_ADMIN_KEY"):
        admin_client(None, "http://127.0.0.1:9")
    monkeypatch.setenv("TRILOGUE_ADMIN_KEY", "admin-key-0123456789")
    with pytest.raises(click.UsageError, match="must be an http or https URL"):
        admin_client(None, "127.0.0.1:9")
    assert admin_client(None, "https://gateway.example/admin/").url == "https://gateway.example/admin"


def test_a_state_folder_that_cannot_be_written(folder: Path) -> None:
    """The gateway starts without an admin interface, and the log says why."""
    (folder / "file").write_text("")
    with running(folder, CONFIG, "", {"XDG_STATE_HOME": str(folder / "file")}) as gateway:
        written = gateway.log_file.read_text()
        assert written.count("the state folder cannot be written") == 1
        assert written.count('"level":"warning"') == 1, written
        assert '"off":"admin interface and console"' in written
        assert os.fspath(folder / "file") in gateway.log_file.read_text()

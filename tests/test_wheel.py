"""The wheel that users install: what is in it, and a command and a gateway that run from it alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx2
import pytest

from tests.gateway.running import CLIENT_KEY, CONFIG, listening
from tests.scripted import thread
from tests.scripted.server import KEY
from trilogue import __version__

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
REQUEST = {"model": "messages/text", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, with the build backend that is installed and without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into a folder of its own, without what it depends on."""
    folder = tmp_path_factory.mktemp("installed")
    pip("install", "--no-deps", "--no-compile", "--target", str(folder), str(wheel))
    return folder


def pip(*arguments: str) -> None:
    """Run pip without the network."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", arguments[0], "--no-index", *arguments[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def environment(installed: Path, home: Path) -> dict[str, str]:
    """Return an environment in which the package comes from the wheel, and what it depends on from this interpreter.

    The sources are installed for development, so their folder is found last: it must not be what is used.
    """
    return {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(home),
        "PYTHONPATH": str(installed),
        "TRILOGUE_KEY": CLIENT_KEY,
        "UP_KEY": KEY,
    }


def run(environ: dict[str, str], folder: Path, *arguments: str) -> str:
    """Run an interpreter to its end, and return what it printed."""
    done = subprocess.run(
        [sys.executable, *arguments], env=environ, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files(names: list[str]) -> set[str]:
    return {name for name in names if name.startswith("trilogue/") and not name.endswith("/")}


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    """Modules, the files of the console and the marker for type checkers, and nothing else."""
    inside = files(zipfile.ZipFile(wheel).namelist())
    sources = (path for path in (SRC / "trilogue").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert inside == {path.relative_to(SRC).as_posix() for path in sources}
    others = {name for name in inside if not name.endswith(".py")}
    assert "trilogue/py.typed" in others
    assert {Path(name).suffix for name in others} >= {".html", ".css", ".js", ".svg"}


def test_the_wheel_has_the_license_and_the_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        named = {name.partition(".dist-info/")[2] for name in opened.namelist() if ".dist-info/" in name}
        (points,) = [opened.read(name).decode() for name in opened.namelist() if name.endswith("entry_points.txt")]
    assert named == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert points.startswith("[console_scripts]\ntrilogue = trilogue")


def test_the_command_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    environ = environment(installed, tmp_path)
    where = run(environ, tmp_path, "-c", "import trilogue; print(trilogue.__file__)").strip()
    assert Path(where).is_relative_to(installed)
    assert __version__ in run(environ, tmp_path, "-m", "trilogue", "--version")
    assert __version__ in run(environ, tmp_path, str(installed / "bin" / "trilogue"), "--version")


def test_a_gateway_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    """It serves a translated request, and the console."""
    environ, log_file = environment(installed, tmp_path), tmp_path / "gateway.log"
    with thread.running() as up, log_file.open("w") as log:
        (tmp_path / "trilogue.yaml").write_text(CONFIG.replace("UPSTREAM", up.url) + "admin: {port: 0}\n")
        command = [sys.executable, "-m", "trilogue", "serve", "--port", "0"]
        process = subprocess.Popen(
            command, env=environ, cwd=tmp_path, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
        try:
            url = listening(process, log_file)
            headers = {"authorization": f"Bearer {CLIENT_KEY}"}
            reply = httpx2.post(f"{url}/v1/chat/completions", headers=headers, json=REQUEST, timeout=20)
            lines = map(json.loads, log_file.read_text().splitlines())
            port = next(line["port"] for line in lines if line["event"] == "admin interface")
            page = httpx2.get(f"http://127.0.0.1:{port}/console/", timeout=20)
        finally:
            process.terminate()
            process.wait(30)
            if process.stdout is not None:
                process.stdout.close()
    assert reply.status_code == 200
    assert reply.json()["choices"][0]["finish_reason"] == "stop"
    (index,) = SRC.rglob("index.html")
    assert page.text == index.read_text("utf-8")

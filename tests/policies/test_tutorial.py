"""docs/policy-tutorial.md, followed step by step with a real gateway: every file, every command, every output."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from tests.gateway.process import until

PAGE = Path(__file__).resolve().parents[2] / "docs" / "policy-tutorial.md"
SAVED = re.compile(r"Save this as `([\w.]+)`")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CONFIG = "trilogue.yaml"
START = "trilogue"
WAIT_SECONDS = 30
BASH = shutil.which("bash") or ""


@dataclass
class Reader:
    """Somebody who follows the page in a folder of their own, on free ports."""

    home: Path
    gateway: subprocess.Popen[str] | None = None
    commands: list[str] = field(default_factory=list)
    address: str = ""

    @property
    def folder(self) -> Path:
        return self.home / "policy-tutorial"

    @property
    def environ(self) -> dict[str, str]:
        names = {"HOME": self.home, "XDG_STATE_HOME": self.home / "state", "XDG_CONFIG_HOME": self.home / "config"}
        path = f"{self.home / 'bin'}{os.pathsep}{os.environ['PATH']}"
        known = {name: str(value) for name, value in names.items()}
        return {**os.environ, **known, "PATH": path, "TRILOGUE_LOCAL_SERVERS": "none"}

    def save(self, name: str, text: str) -> None:
        """Save a file. The configuration gets free ports."""
        if name == CONFIG:
            settings = yaml.safe_load(text)
            text = yaml.safe_dump({**settings, "admin": {"port": 0}})
        (self.folder / name).write_text(text)

    def run(self, command: str, expected: str) -> None:
        """Run a command, and compare its output with the page."""
        self.commands.append(command)
        if command == START:
            self.start(expected)
            return
        command = command.replace("http://127.0.0.1:4000", self.address)
        cwd = self.folder if self.folder.exists() else self.home
        done = subprocess.run(
            [BASH, "-c", command], cwd=cwd, env=self.environ, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.stderr == "", command
        assert re.fullmatch(_pattern(expected), done.stdout.strip()), f"{command} printed:\n{done.stdout}"

    def start(self, expected: str) -> None:
        """Start the gateway, in place of one that runs."""
        self.stop()
        with (self.home / "gateway.log").open("w") as log:
            self.gateway = subprocess.Popen(
                [BASH, "-c", f"exec {START} --port 0"],
                cwd=self.folder,
                env=self.environ,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.gateway.stdout is not None
        line = self.gateway.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, (self.home / "gateway.log").read_text()
        self.address = found.group()
        first = expected.splitlines()[0].replace("http://127.0.0.1:4000", self.address)
        assert line.strip() == first

    def stop(self) -> None:
        """Stop the gateway."""
        if self.gateway is not None:
            self.gateway.terminate()
            self.gateway.wait(10)
            if self.gateway.stdout is not None:
                self.gateway.stdout.close()


def _pattern(expected: str) -> str:
    """Return a pattern for an output in which … stands for anything."""
    # A long value that the command itself has cut ends with … too.
    parts = [re.escape(part) for part in expected.strip().split("…")]
    return "(?s:.*)".join(parts)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    if shutil.which("curl") is None or not BASH:
        pytest.skip("the tutorial needs bash and curl")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "trilogue"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m trilogue "$@"\n')
    command.chmod(0o755)
    found = Reader(tmp_path)
    yield found
    found.stop()


def test_every_step(reader: Reader) -> None:
    """The files are those of the page, and so are the outputs, except for ids and times."""
    page, after = PAGE.read_text("utf-8"), 0
    for block in BLOCK.finditer(page):
        kind, text = block.groups()
        words, after = page[after : block.start()], block.end()
        if kind == "console":
            command, _, expected = text.removeprefix("$ ").partition("\n")
            reader.run(command, expected)
            if command.startswith("curl"):
                # A thread writes the capture after the response.
                until(lambda: any((reader.folder / "captures").glob("*.jsonl")), WAIT_SECONDS)
            continue
        named = SAVED.search(words)
        reader.save(named.group(1) if named else CONFIG, text)
    assert [command.split()[1] for command in reader.commands if command.startswith("trilogue ")] == [
        "replay",
        "replay",
        "check",
        "explain",
    ]


def test_the_policy_has_about_ten_lines() -> None:
    code = next(text for kind, text in BLOCK.findall(PAGE.read_text("utf-8")) if kind == "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10

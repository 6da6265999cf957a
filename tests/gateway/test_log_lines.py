"""The lines that come with every request: whole, in order, and never mixed with those of another worker."""

from __future__ import annotations

import asyncio
import json
import os
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from tests.timing import eventually_async
from trilogue.base.text import MAX_TEXT, sane
from trilogue.gateway.log.lines import JOURNAL_LINES, PIPE_BYTES, Journal, LogLine


class Named(LogLine, kw_only=True):
    event: str = "request"
    name: str
    number: int = 0


class Writes(BytesIO):
    """Remembers each write. `like`: the descriptor of a file that it passes for."""

    def __init__(self, like: int | None = None) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self._like = like

    def fileno(self) -> int:
        return super().fileno() if self._like is None else self._like

    def write(self, data: Any) -> int:
        self.pieces.append(bytes(data))
        return super().write(data)


class Log:
    """The other way."""

    def __init__(self) -> None:
        self.said: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.said.append((event, fields))


@pytest.mark.parametrize("count", [1, 3, 100])
@pytest.mark.parametrize("shared", ["a pipe", "a file"])
def test_lines_are_written_together(count: int, shared: str, tmp_path: Path) -> None:
    """After a moment, or when enough have gathered: to a pipe no more at once than it keeps together."""
    ends = os.pipe() if shared == "a pipe" else (os.open(tmp_path / "log", os.O_CREAT | os.O_WRONLY),) * 2
    file, log = Writes(ends[1]), Log()
    journal = Journal(log)  # type: ignore[arg-type]

    async def main() -> None:
        journal.open(file)
        for number in range(count):
            journal.write(Named(name="x" * 100, number=number))
        assert file.getvalue().count(b"\n") == count - count % JOURNAL_LINES
        await eventually_async(lambda: file.getvalue().count(b"\n") == count)

    asyncio.run(main())
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [line["number"] for line in lines] == list(range(count))
    assert {(line["event"], line["level"]) for line in lines} == {("request", "info")}
    assert all(line["timestamp"].endswith("Z") for line in lines)
    assert all(piece.endswith(b"}\n") for piece in file.pieces)
    if shared == "a pipe":
        assert all(len(piece) <= PIPE_BYTES for piece in file.pieces)
    else:
        assert len(file.pieces) == -(-count // JOURNAL_LINES)
    assert log.said == []
    for end in {*ends}:
        os.close(end)


def test_what_is_not_plain_takes_the_other_way() -> None:
    """Other alphabets, and everything while there is no file."""
    file, log = Writes(), Log()
    journal = Journal(log)  # type: ignore[arg-type]

    async def main() -> None:
        journal.write(Named(event="early", name="a"))
        journal.open(file)
        journal.write(Named(event="other", name="ü"))
        journal.write(Named(event="plain", name="a\nb"))
        journal.flush()

    asyncio.run(main())
    assert [event for event, _ in log.said] == ["early", "other"]
    assert {tuple(fields) for _, fields in log.said} == {("name", "number")}
    assert json.loads(file.getvalue())["name"] == "a\nb"


def test_a_line_that_is_longer_than_a_pipe_takes() -> None:
    """It is written for itself: nothing is lost, and the others are not mixed with it."""
    ends = os.pipe()
    file = Writes(ends[1])
    journal = Journal(Log())  # type: ignore[arg-type]

    async def main() -> None:
        journal.open(file)
        for size in (10, 5000, 20):
            journal.write(Named(name="x" * size))
        journal.flush()

    asyncio.run(main())
    assert [len(json.loads(piece)["name"]) for piece in file.pieces] == [10, 5000, 20]
    for end in ends:
        os.close(end)


def test_a_file_that_is_gone_stops_nothing() -> None:
    """The lines are lost."""
    file = Writes()
    journal = Journal(Log())  # type: ignore[arg-type]
    file.close()

    async def main() -> None:
        journal.open(file)
        journal.write(Named(name="a"))
        journal.flush()

    asyncio.run(main())


def test_texts_from_outside_are_cut() -> None:
    """To what a log can bear."""
    assert sane("short") == "short"
    assert len(sane("x" * 10_000)) == MAX_TEXT + 1

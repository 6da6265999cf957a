"""Which functions are called, in which order, and how often the path goes back to a file that it has left."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import FrameType
from typing import NamedTuple

from tests.architecture.graphs import modules, reached
from tests.test_layers import ROOT_PACKAGE, SRC

PACKAGE = SRC / ROOT_PACKAGE
GATEWAY = "gateway/"

Place = tuple[str, str]
"""a file below the package, and a function or class in it"""


class Call(NamedTuple):
    """A function that is called, and the file below the package that calls it; empty if it is the event loop."""

    place: Place
    caller: str


class Return(NamedTuple):
    """A call from a file back into one that was entered before it, and that it does not import."""

    caller: str
    place: Place


def recorder() -> tuple[list[Call], Callable[[FrameType, str, object], None]]:
    """Return a list of calls, and a profile function that fills it."""
    calls: list[Call] = []
    frames: dict[int, FrameType] = {}
    prefix = f"{PACKAGE}/"

    def profile(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        # A coroutine that goes on after a wait is reported as a call, too.
        if event == "call" and file.startswith(prefix) and id(frame) not in frames:
            frames[id(frame)] = frame
            place = file.removeprefix(prefix), frame.f_code.co_qualname
            calls.append(Call(place, caller_of(frame, prefix).removeprefix(prefix)))

    return calls, profile


def caller_of(frame: FrameType, prefix: str) -> str:
    """Return the file that called a function, past the standard library; empty if no file with this prefix did."""
    above = frame.f_back
    while above is not None and not above.f_code.co_filename.startswith(prefix):
        above = above.f_back
    return "" if above is None else above.f_code.co_filename


def files_entered(calls: Iterable[Call]) -> list[str]:
    """Return the files of the gateway in the order in which they are entered."""
    return list(dict.fromkeys(call.place[0] for call in calls if call.place[0].startswith(GATEWAY)))


def returns(calls: Iterable[Call]) -> list[Return]:
    """Return how the path goes back, each way once.

    A reader follows calls from file to file. A call is a way back if it leads to a file that the reader has left
    before, and if the file that calls imports that one neither directly nor through others: it was given a function or
    an object. Calls of helpers, which are imported, are none, and neither are calls from outside of the gateway: a
    connection that hands over bytes, or the event loop.
    """
    found = list(calls)
    entered = {file: at for at, file in enumerate(files_entered(found))}
    back = [
        Return(call.caller, call.place)
        for call in found
        if entered.get(call.place[0], len(entered)) < entered.get(call.caller, -1)
        and not imports(call.caller, call.place[0])
    ]
    return list(dict.fromkeys(back))


def imports(file: str, other: str) -> bool:
    """Return whether a file imports another one, directly or through others."""
    return module(other) in reached(modules(), [module(file)])


def module(file: str) -> str:
    """Return the name of the module that a file below the package is."""
    return f"{ROOT_PACKAGE}.{file.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"


def not_in_order(listed: list[Place], calls: list[Place]) -> list[Place]:
    """Return what is listed and was not called after what is listed before it."""
    at, missing = 0, []
    for place in listed:
        try:
            at = calls.index(place, at) + 1
        except ValueError:
            missing.append(place)
    return missing

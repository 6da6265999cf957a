import gc
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import structlog

from tests.recordings import NO_RECORDINGS, corpus_directory, recordings, untested
from tests.timing import with_tries

os.environ["TRILOGUE_DOTENV"] = "0"
os.environ["TRILOGUE_LOCAL_SERVERS"] = "none"
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="trilogue-tests-")
"""Files and model servers of a developer must not change what tests see. Tests of these set the variables again."""

os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = tempfile.mkdtemp(prefix="trilogue-no-authorities-")
"""No server of a test has a certificate of a public authority. Each client of an SDK would read all of them: 20 ms of
processor time, for some thousand clients."""


# Shells start background jobs with SIGINT ignored. Processes inherit that, and tests send it to theirs.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt modules, types and recordings from garbage collection: they stay to the end, and scanning them takes a
    sixth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    """Remove the state that gateways without a place of their own have left, and the empty folder."""
    for name in ("XDG_STATE_HOME", "SSL_CERT_DIR"):
        shutil.rmtree(os.environ[name], ignore_errors=True)


@pytest.fixture(autouse=True, scope="module")
def _no_leak_of_fixtures() -> Iterator[None]:
    """Collect what the fixtures of a module left in cycles: what they did not close is blamed on this module.

    What is left then stays for long, such as modules and caches. Looking at it again and again would take a seventh of
    the time of all tests.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _logging_as_it_was() -> Iterator[None]:
    """Undo what commands that ran in this process have set up: their log would go to a file that is gone."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.setLevel(level)
    for handler in [one for one in root.handlers if one not in handlers]:
        root.removeHandler(handler)
    for handler in [one for one in handlers if one not in root.handlers]:
        root.addHandler(handler)
    log = sys.modules.get("trilogue.gateway.log.lines")
    if log is not None:
        log.journal.open(None)
        structlog.reset_defaults()


@pytest.fixture(autouse=True)
def _no_leak() -> Iterator[None]:
    """Collect what a test left in cycles, so that what it did not close is blamed on it and not on a later one."""
    yield
    gc.collect(1)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Retry tests that missed a time limit, at most twice: a busy machine may miss one, but not three times in a
    row."""
    if isinstance(item, pytest.Function):
        item.obj = with_tries(item.obj)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the folder of recorded provider traffic, and skip the test if there is none."""
    if not recordings():
        pytest.skip(NO_RECORDINGS)
    return corpus_directory()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line each which tests did not run for lack of recordings, node or Chromium.

    A green run proves less then.
    """
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = [str(report.longrepr[2]) for report in skipped if isinstance(report.longrepr, tuple)]
    for reason in sorted({reason for reason in reasons if "not tested" in reason}):
        terminalreporter.write_sep("!", reason, red=True, bold=True)
    notice = "" if recordings() else untested(reasons)
    if notice:
        terminalreporter.write_sep("!", notice, red=True, bold=True)

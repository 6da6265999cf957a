import gc
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.recordings import corpus_directory
from tests.timing import with_tries


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules, types and recordings stay to the end: looking through them for garbage takes a sixth of all the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Limits on time may be missed on a busy machine, but not three times in a row."""
    if isinstance(item, pytest.Function):
        item.obj = with_tries(item.obj)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The directory of recorded provider traffic; a test that asks for it is skipped where there is none."""
    directory = corpus_directory()
    if not directory.is_dir():
        pytest.skip(f"no recorded traffic at {directory}; set TRILOGUE_CORPUS to its directory")
    return directory

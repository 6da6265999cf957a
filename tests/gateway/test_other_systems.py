"""The core of the gateway's tests once more, on a gateway without uvloop, fcntl and other parts of POSIX."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway import test_matrix, test_passthrough
from tests.gateway.running import CONFIG, Gateway, running
from tests.scripted.server import ScriptedUpstream

MODULE = "tests.other_systems"


@pytest.fixture(scope="module")
def _gateway(_upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The gateway of this module's tests, which takes the place of the usual one."""
    with running(tmp_path_factory.mktemp("other"), CONFIG, _upstream.url, module=MODULE) as gateway:
        yield gateway
        gateway.process.terminate()
        assert gateway.process.wait(30) == 0
    assert "Traceback" not in gateway.log_file.read_text()


test_text = test_matrix.test_text
test_calls = test_matrix.test_calls_and_their_results
test_request_bytes = test_passthrough.test_request_bytes
test_response_bytes = test_passthrough.test_response_bytes
test_events_cut_anywhere = test_passthrough.test_events_cut_anywhere
test_truncated_stream = test_passthrough.test_truncated_stream
test_trouble_after_the_end = test_passthrough.test_trouble_after_the_end


def test_several_workers_are_refused(tmp_path: Path) -> None:
    """With what to do."""
    command = [sys.executable, "-m", MODULE, "serve", "--port", "0", "--workers", "2"]
    home = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(command, env=home, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "trilogue: several workers need a system that can fork processes; use one: --workers 1\n"

"""The console is part of the package that users install."""

import subprocess
import sys
import zipfile
from pathlib import Path

from trilogue.gateway.admin.console import console_files

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "trilogue/gateway/admin/console/static/"


def test_the_wheel_has_all_files_of_the_console(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name.removeprefix(FOLDER): archive.read(name) for name in archive.namelist() if FOLDER in name}
    assert packed == {name: file.data for name, file in console_files().items()}

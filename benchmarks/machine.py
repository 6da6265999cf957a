"""A description of the machine that does not reveal whose it is."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path

import trilogue
from benchmarks.interpreter import Interpreter

BUSY = 0.3
"""load per core above which the figures are noisy"""


def describe(interpreter: Interpreter) -> dict[str, str]:
    """Return what a reader needs to compare figures. `interpreter` is the one that runs the gateways."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = f"{len(os.sched_getaffinity(0))}"
    virtual = ", in a virtual machine" if "hypervisor" in cpuinfo else ""
    return {
        "processor": cpu_model(cpuinfo),
        "cores": cores + virtual,
        "memory": f"{memory:.0f} GiB",
        "system": f"{distribution()}, Linux {kernel(platform.release())}",
        "Python": interpreter.description,
        "Trilogue": trilogue.__version__,
    }


def cpu_model(cpuinfo: str) -> str:
    """Return the name of the processor."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return value.strip()
    return platform.machine()


def kernel(release: str) -> str:
    """Return the kernel version without local suffixes."""
    return release.partition("-")[0]


def distribution() -> str:
    """Return the name of the distribution."""
    with suppress(OSError):
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    return "Linux"


def load_notice() -> str | None:
    """Return a warning if other programs use the machine, or None."""
    load = os.getloadavg()[0]
    if load < BUSY * len(os.sched_getaffinity(0)):
        return None
    return f"The machine was busy when the run started (load {load:.1f}), so the figures are noisy."

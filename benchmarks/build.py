"""Compile the scripted upstream and the load generator, with an installed C compiler or the one from PyPI."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.paths import CACHE, NATIVE

COMPILERS = ("cc", "gcc", "clang")
OPTIONS = ("-O2", "-Wall", "-Wextra")
LIBRARIES = ("-lm",)
NO_COMPILER = (
    "No C compiler: the scripted upstream and the load generator are C. Install one (Debian: apt install gcc), or let "
    "pip fetch the wheel `ziglang`, which carries one: "
)


class NoCompiler(Exception):
    """There is no C compiler, and none could be downloaded."""


class Compiler(NamedTuple):
    """The command of a compiler and the environment that it needs."""

    command: tuple[str, ...]
    environ: Mapping[str, str]


class Tools(NamedTuple):
    """The paths of the compiled programs."""

    upstream: Path
    client: Path


def build(cache: Path = CACHE) -> Tools:
    """Compile the programs whose sources have changed, and return their paths. Raises NoCompiler."""
    sources = sorted(NATIVE.iterdir())
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    folder = cache / "bin" / digest
    tools = Tools(folder / "upstream", folder / "client")
    missing = [tool for tool in tools if not tool.exists()]
    if missing:
        compiler = find_compiler(cache)
        folder.mkdir(parents=True, exist_ok=True)
        for tool in missing:
            compile_tool(compiler, NATIVE / f"{tool.name}.c", tool)
    return tools


def find_compiler(cache: Path) -> Compiler:
    """Return the first installed compiler, or else the one from PyPI, which is kept in the cache."""
    for name in COMPILERS:
        found = shutil.which(name)
        if found:
            return Compiler((found,), dict(os.environ))
    return zig(cache / "zig")


def zig(folder: Path) -> Compiler:
    """Return the compiler of the wheel `ziglang`, downloaded if it is not in the cache."""
    if not (folder / "ziglang").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), "ziglang"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise NoCompiler(NO_COMPILER + (done.stderr.strip().splitlines() or ["pip failed"])[-1])
    environ = {**os.environ, "PYTHONPATH": str(folder), "ZIG_GLOBAL_CACHE_DIR": str(folder / "cache")}
    return Compiler((sys.executable, "-m", "ziglang", "cc"), environ)


def compile_tool(compiler: Compiler, source: Path, target: Path) -> None:
    """Compile one source. The program appears under its name only when it is complete."""
    partial = target.with_suffix(f".{os.getpid()}")
    command = [*compiler.command, *OPTIONS, "-o", str(partial), str(source), *LIBRARIES]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=compiler.environ)
    if done.returncode:
        raise NoCompiler(f"{compiler.command[0]} cannot compile {source.name}:\n{done.stderr.strip()}")
    partial.rename(target)

"""Compiles the scripted upstream and the load generator, with the C compiler that is there or the one from PyPI."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.where import CACHE, NATIVE

COMPILERS = ("cc", "gcc", "clang")
OPTIONS = ("-O2", "-Wall", "-Wextra")
LIBRARIES = ("-lm",)
NO_COMPILER = (
    "No C compiler: the scripted upstream and the load generator are C. Install one (Debian: apt install gcc), or let "
    "pip fetch the wheel `ziglang`, which carries one: "
)


class NoCompiler(Exception):
    """Neither a compiler nor a way to get one."""


class Compiler(NamedTuple):
    """A command, and the environment that it needs."""

    command: tuple[str, ...]
    environ: Mapping[str, str]


class Tools(NamedTuple):
    """The compiled programs."""

    upstream: Path
    client: Path


def build(cache: Path = CACHE) -> Tools:
    """Compile what has changed since the last time."""
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
    """The first of the usual ones; otherwise the wheel, kept in the cache."""
    for name in COMPILERS:
        found = shutil.which(name)
        if found:
            return Compiler((found,), dict(os.environ))
    return zig(cache / "zig")


def zig(folder: Path) -> Compiler:
    """The compiler of the wheel `ziglang`, downloaded once."""
    if not (folder / "ziglang").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), "ziglang"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise NoCompiler(NO_COMPILER + (done.stderr.strip().splitlines() or ["pip failed"])[-1])
    environ = {**os.environ, "PYTHONPATH": str(folder), "ZIG_GLOBAL_CACHE_DIR": str(folder / "cache")}
    return Compiler((sys.executable, "-m", "ziglang", "cc"), environ)


def compile_tool(compiler: Compiler, source: Path, target: Path) -> None:
    """One source to one program; it appears under its name when it is whole."""
    partial = target.with_suffix(f".{os.getpid()}")
    command = [*compiler.command, *OPTIONS, "-o", str(partial), str(source), *LIBRARIES]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=compiler.environ)
    if done.returncode:
        raise NoCompiler(f"{compiler.command[0]} cannot compile {source.name}:\n{done.stderr.strip()}")
    partial.rename(target)

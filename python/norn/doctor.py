# SPDX-License-Identifier: Apache-2.0
"""`norn doctor`: what works here; then what trainer --doctor says of the machine."""
from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys

from .errors import UsageError
from .programs import PROGRAMS, SCRIPTS, find_program, run_instead

_HELP = """norn doctor: what works on this machine.

Usage: norn doctor [options of trainer --doctor]

Shows the package, its programs and the Python packages that it can use, then what trainer --doctor finds of processors,
memory, disk, GPUs and ranks (docs/user/doctor.md): --model FILE names the disk to look at, --device the device.
"""
_PACKAGES = {  # what each is for
    "numpy": "arrays", "scipy": "sparse matrices", "pyarrow": "tables, Parquet, JSON lines", "pandas": "tables", "polars": "tables", "duckdb": "tables",
    "onnx": "export to ONNX", "onnxruntime": "trying ONNX", "safetensors": "export to safetensors", "torch": "models of PyTorch", "h5py": "models of Keras",
    "pyspark": "Spark", "tqdm": "progress bars", "implicit": "comparisons",
}


def _version(program: str) -> tuple[str, str]:
    try:
        words = find_program(program)
    except UsageError as error:
        return "missing", str(error)
    if program in SCRIPTS:
        return "there", words[-1]
    try:
        said = subprocess.run([*words, "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "broken", f"{words[0]}: {error}"
    lines = said.stdout.splitlines()
    if said.returncode != 0 or not lines:
        return "broken", f"{words[0]}: {(said.stderr.strip() or 'it ended with code ' + str(said.returncode)).splitlines()[-1]}"
    return (lines[0].split() + ["", "there"])[1] or "there", words[0]


def _package(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def report() -> tuple[str, bool]:
    """The text, and whether what Norn itself consists of works."""
    from . import _core

    config = _core.show_config()
    lines = ["Norn", f"  {'package':20}{_core.version()}, {os.path.dirname(os.path.abspath(__file__))}"]
    lines.append(f"  {'Python':20}{platform.python_version()}, {sys.executable}")
    lines += [f"  {name:20}{value}" for name, value in config.items() if name != "version"]
    lines.append("programs")
    works = True
    for program in (*PROGRAMS, *SCRIPTS):
        version, place = _version(program)
        works = works and (version not in ("missing", "broken") or program not in PROGRAMS)
        other = f" (the package is {_core.version()})" if program in PROGRAMS and version not in ("missing", "broken", _core.version()) else ""
        lines.append(f"  {program:20}{version:15}{place}{other}")
    lines.append("Python packages")
    lines += [f"  {name:20}{_package(name):15}{what}" for name, what in _PACKAGES.items()]
    return "\n".join(lines) + "\n", works


def main(_command: str, arguments: list[str]) -> int:
    if "-h" in arguments or "--help" in arguments:
        print(_HELP, end="")
        return 0
    text, works = report()
    print(text, flush=True)
    if not works:
        raise UsageError("programs of Norn are missing or do not start; see above")
    run_instead("trainer", ["--doctor", *arguments])
    return 0

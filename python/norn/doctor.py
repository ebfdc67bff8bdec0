# SPDX-License-Identifier: Apache-2.0
"""`norn doctor`: what works here; then what trainer --doctor says of the machine."""
from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys

from ._options import Command, Option, styler
from .errors import UsageError
from .programs import PROGRAMS, SCRIPTS, find_program, run_instead

COMMAND = Command(
    "what works on this machine", "[options of norn train]",
    about=("Shows the package, its programs and the Python packages that it can use, then what `norn train --doctor` finds of processors, "
           "memory, disk, GPUs and ranks (docs/user/doctor.md). Ends with 0 where nothing is wrong.",),
    options=(Option(("--model", "-n"), "FILE", "look at the disk where this file is to stand"),
             Option(("--device",), "auto|cpu|cuda", "what is to be computed on", ("auto", "cpu", "cuda"), "auto")),
    examples=(("Also of the disk that models go to", "--model /data/model.nc"),))
_PACKAGES = {  # what each is for
    "numpy": "arrays", "scipy": "sparse matrices", "pyarrow": "tables, Parquet, JSON lines", "pandas": "tables", "polars": "tables",
    "duckdb": "tables",
    "onnx": "export to ONNX", "onnxruntime": "trying ONNX", "safetensors": "export to safetensors", "torch": "models of PyTorch",
    "h5py": "models of Keras",
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
    styled = styler(sys.stdout)
    lines = [styled("Norn", "bold"), f"  {'package':20}{_core.version()}, {os.path.dirname(os.path.abspath(__file__))}"]
    lines.append(f"  {'Python':20}{platform.python_version()}, {sys.executable}")
    lines += [f"  {name:20}{value}" for name, value in config.items() if name != "version"]
    lines.append(styled("programs", "bold"))
    works = True
    for program in (*PROGRAMS, *SCRIPTS):
        version, place = _version(program)
        works = works and (version not in ("missing", "broken") or program not in PROGRAMS)
        other = f" (the package is {_core.version()})" if program in PROGRAMS and version not in ("missing", "broken",
                                                                                                  _core.version()) else ""
        shown = styled(f"{version:15}", "red" if version in ("missing", "broken") else "green")
        lines.append(f"  {program:20}{shown}{place}{other}")
    lines.append(styled("Python packages", "bold"))
    lines += [f"  {name:20}{_package(name):15}{what}" for name, what in _PACKAGES.items()]
    return "\n".join(lines) + "\n", works


def main(_command: str, arguments: list[str]) -> int:
    text, works = report()
    print(text, flush=True)
    if not works:
        raise UsageError("programs of Norn are missing or do not start; see above")
    run_instead("trainer", ["--doctor", *arguments], "doctor")
    return 0

# SPDX-License-Identifier: Apache-2.0
"""What a trainer stands on, as far as a look at names, sizes and times tells: while that stays, contents need not be read again."""
import os
import pathlib
import re
import subprocess
from typing import Any, Iterable

BLAS_SETTING = "OPENBLAS_CORETYPE"  # of the environment
SETTINGS = (BLAS_SETTING, "CUDA_VISIBLE_DEVICES")  # of the environment, which choose what computes


def standing(program: pathlib.Path, data: Iterable[str]) -> dict[str, Any]:
    """Where it runs, and each file's size and times. The time of change (ctime) is kept by no tool that copies or restores."""
    files = {name: os.stat(name) for name in [*data, str(program), *libraries(program)] if os.path.isfile(name)}
    return {"host": os.uname().nodename, "processors": processors(), "settings": [os.environ.get(name) for name in SETTINGS],
            "files": {name: [one.st_size, one.st_mtime_ns, one.st_ctime_ns] for name, one in files.items()}}


def libraries(program: pathlib.Path) -> list[str]:
    """What the loader would load for it, now and with these settings."""
    try:
        said = subprocess.run([str(program)], env={**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"}, capture_output=True, text=True,
                              errors="replace",
                              stdin=subprocess.DEVNULL).stdout
    except OSError:
        return []
    return sorted(set(re.findall(r"(?:=> |^\s*)(/\S+) \(0x", said, re.M)))


def processors() -> list[str]:
    """Kinds of processors and GPUs, where the system says them."""
    found = set()
    for path in (pathlib.Path("/proc/cpuinfo"), *pathlib.Path("/proc/driver/nvidia/gpus").glob("*/information")):
        try:
            found |= set(re.findall(r"^(?:model name|Model)\s*:\s*(.+)$", path.read_text(errors="replace"), re.M))
        except OSError:
            pass
    return sorted(found)

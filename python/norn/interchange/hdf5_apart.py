# SPDX-License-Identifier: Apache-2.0
"""Reads arrays of an HDF5 file in a process of its own: the HDF5 library may crash on a damaged file, find no end, or ask for all
memory."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from norn.interchange.problems import fail

SECONDS = 5  # of computing, and one more for so many bytes:
BYTES_A_SECOND = 16 << 20
BYTES = 8 << 30  # of memory beyond what the arrays may take

# Run by the child, with nothing of this package. Arguments: the file, where arrays go, bytes of memory.
_CHILD = """
import sys
sys.path.pop(0)
import json, resource
file, folder, limit, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
import h5py, numpy, os
most, found, groups = 16 * os.path.getsize(file) + (64 << 20), {}, {}
def visit(name, item):
    global most
    if isinstance(item, h5py.Group):
        label = item.attrs.get("name")
        groups[name] = label.decode() if isinstance(label, bytes) else str(label) if isinstance(label, str) else None
        return
    if item.is_virtual or item.external:
        sys.exit(f"{name} has its contents in another file, which is not opened")
    if item.dtype.kind not in "fiu" or item.ndim > 8:
        return
    most -= item.size * item.dtype.itemsize
    if most < 0 or len(found) > 100000:
        sys.exit("its arrays are larger than the file")
    numpy.save(os.path.join(folder, f"{len(found)}.npy"), item[()])
    found[name] = len(found)
try:
    with h5py.File(file, "r") as opened:
        opened.visititems(visit)
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}"[:500])
json.dump([found, groups], sys.stdout)
"""


def read_hdf5(file: str, where: str) -> tuple[dict[str, np.ndarray], dict[str, str | None]]:
    """All arrays of numbers by name, and what the attribute `name` of each group says. `where` names the file in messages. Raises
    DataError for one that is damaged, and ImportError without h5py."""
    import importlib.util
    if importlib.util.find_spec("h5py") is None:
        raise ImportError("reading HDF5 needs the package h5py; install it: pip install h5py")
    with tempfile.TemporaryDirectory(prefix="norn-") as folder:
        limit = BYTES + 32 * os.path.getsize(file)
        seconds = SECONDS + os.path.getsize(file) // BYTES_A_SECOND
        try:
            child = subprocess.run([sys.executable, "-c", _CHILD, os.path.abspath(file), folder, str(limit), str(seconds)], cwd=folder,
                                   capture_output=True, timeout=12 * seconds, check=False,
                                   env={**os.environ, "HDF5_USE_FILE_LOCKING": "FALSE", "HDF5_PLUGIN_PRELOAD": "::",
                                        "OPENBLAS_NUM_THREADS": "1"})
        except subprocess.TimeoutExpired as error:
            raise fail(where, f"its arrays are not read within {12 * seconds} s; the file is damaged") from error
        if child.returncode < 0:
            raise fail(where, f"its HDF5 file is damaged: the process that read it ended by signal {-child.returncode}")
        if child.returncode > 0:
            said = child.stderr.decode(errors="replace").strip().splitlines()
            raise fail(where, f"its HDF5 file is damaged: {said[-1] if said else 'no reason is known'}")
        found, groups = json.loads(child.stdout)
        return {name: np.load(pathlib.Path(folder, f"{number}.npy"), allow_pickle=False) for name, number in found.items()}, groups

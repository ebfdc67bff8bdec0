# SPDX-License-Identifier: Apache-2.0
"""What tests of the Python package share. PYTHONPATH holds the package, NORN_BIN the programs."""
import os
import pathlib
import random
import signal
import subprocess
import sys
import types
import zlib

import numpy as np
import pytest
import scipy.sparse as sp

for name in ("OPENBLAS_CORETYPE", "NORN_DEVICE"):
    os.environ.pop(name, None)
DEVICE = os.environ.get("NORN_TEST_DEVICE", "cpu")  # of the tests of bits
# Shells begin what runs in the background with Ctrl-C ignored, and so do tests of it.
signal.signal(signal.SIGINT, signal.default_int_handler)

ALWAYS = {"norn", "numpy", "scipy", "pytest", "nanobind_backend", *sys.stdlib_module_names}


def pytest_addoption(parser):
    parser.addoption("--installed-only", action="store_true",
                     help="skip tests that need a package that is not installed and that norn does not require; else they fail")


def _absent(error):
    """The package that is not installed, where that is what an error comes of."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name.partition(".")[0] not in ALWAYS:
            return error.name
        error = error.__cause__ or error.__context__
    return None


def _skipped(report, excinfo, config, path):
    name = _absent(excinfo.value) if report.failed and excinfo and config.getoption("--installed-only") else None
    if name:
        report.outcome, report.longrepr = "skipped", (str(path), 0, f"Skipped: {name} is not installed")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    return _skipped(report, report.__dict__["call"].excinfo, collector.config, collector.path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return _skipped((yield), call.excinfo, item.config, item.path)


@pytest.fixture(scope="session")
def programs():
    """The folder of the programs."""
    return pathlib.Path(os.environ["NORN_BIN"])


@pytest.fixture(scope="session")
def source():
    """The root of the source tree."""
    return pathlib.Path(os.environ.get("NORN_SOURCE", pathlib.Path(__file__).parents[2]))


@pytest.fixture
def reference(source, monkeypatch):
    """tests/golden/reference_metrics.py."""
    monkeypatch.syspath_prepend(str(source / "tests/golden"))
    import reference_metrics

    yield reference_metrics
    sys.modules.pop("reference_metrics")


@pytest.fixture
def draw(request):
    """Random numbers, other ones in every run; NORN_TEST_SEED=N draws those of a run that failed."""
    seed = int(os.environ.get("NORN_TEST_SEED", random.SystemRandom().randrange(2**31)))
    print(f"NORN_TEST_SEED={seed}")
    return np.random.default_rng([seed, zlib.crc32(request.node.name.encode())])  # other ones for each test


class Baskets:
    """Baskets of units that like each other, as a matrix and as the text that importer reads."""

    def __init__(self, draw, users=None, units=None, values=False):
        users = users or int(draw.integers(60, 300))
        self.units = units or int(draw.integers(23, 90))
        rows = [self._row(draw) for _ in range(users)]
        indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
        data = np.ones(indptr[-1], np.float32)
        if values:
            data = (draw.integers(1, 50, indptr[-1]) / 8).astype(np.float32)
            data[0] = 2.5
        self.matrix = sp.csr_matrix((data, np.concatenate(rows).astype(np.int32), indptr), shape=(users, self.units))
        self.values = values

    def _row(self, draw):
        group = 10 * int(draw.integers(0, max(1, self.units // 10)))
        return np.unique(np.minimum(group + draw.integers(0, 13, draw.integers(2, 9)), self.units - 1))

    @property
    def dataset(self):
        """With labels, as a Dataset has them."""
        labels = [f"unit{u}" for u in range(self.units)]
        return types.SimpleNamespace(matrix=self.matrix, feature_labels=labels, example_labels=None, name="films")

    def write(self, programs, folder):
        """The NetCDF file of importer."""
        folder.joinpath("films.features").write_text("".join(f"unit{u}\t{u}\n" for u in range(self.units)))
        with open(folder / "films.txt", "w", encoding="utf-8") as text:
            for user in range(self.matrix.shape[0]):
                row = self.matrix[user]
                text.write(f"user{user}\t" + ":".join(
                    f"unit{u},{v!r}" if self.values else f"unit{u}" for u, v in zip(row.indices, row.data.tolist())) + "\n")
        run(programs / "importer", "-i", folder / "films.txt", "-f", folder / "films.features", "-d", "films", "-o", folder / "films.nc",
            *(["-t", "analog"] if self.values else []), "-q")
        return folder / "films.nc"


def held_out_parts(draw, matrix):
    """Known and held-out entries; of some users nothing is held out."""
    out = draw.random(matrix.nnz) < 0.4
    known, held_out = matrix.copy(), matrix.copy()
    known.data[:], held_out.data[:] = ~out, out
    known.eliminate_zeros()
    held_out.eliminate_zeros()
    return known, held_out


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def same(one, other):
    """Whether lists of arrays of 32 bits have the same ones."""
    return all((a.view(np.uint32) == b.view(np.uint32)).all() for a, b in zip(one, other))


@pytest.fixture
def baskets(draw):
    return Baskets(draw)


@pytest.fixture
def trained(baskets):
    """A recommender that has learned the baskets, without labels."""
    import norn

    return norn.Recommender(epochs=3, batch=20, device="cpu", threads=1).fit(baskets.matrix)

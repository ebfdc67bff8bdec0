# SPDX-License-Identifier: Apache-2.0
"""What tests of the Python package share. PYTHONPATH holds the package, NORN_BIN the programs."""
import os
import pathlib

import pytest


@pytest.fixture(scope="session")
def programs():
    """The folder of the programs."""
    return pathlib.Path(os.environ["NORN_BIN"])


@pytest.fixture(scope="session")
def source():
    """The root of the source tree."""
    return pathlib.Path(os.environ.get("NORN_SOURCE", pathlib.Path(__file__).parents[2]))

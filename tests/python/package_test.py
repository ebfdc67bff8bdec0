# SPDX-License-Identifier: Apache-2.0
"""The package as such: what it is, what importing it loads."""
import subprocess
import sys

import norn


def test_version_is_that_of_the_programs(programs):
    said = subprocess.run([programs / "trainer", "--version"], capture_output=True, text=True, check=True).stdout
    assert said.split()[1] == norn.__version__ == norn.version()
    for library in ("OpenBLAS", "NetCDF"):
        assert f"{library}: {norn.show_config()[library]}" in said


def test_importing_loads_nothing_else():
    """Neither NumPy nor the engine; they are loaded when they are needed."""
    code = "import sys; import norn; print(sorted(m for m in sys.modules if m.split('.')[0] in ('numpy', 'scipy', 'norn')))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "['norn']\n"


def test_every_name_is_there():
    for name in norn.__all__:
        assert getattr(norn, name).__doc__, name
    assert set(norn.__all__) <= set(dir(norn))

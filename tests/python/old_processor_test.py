# SPDX-License-Identifier: Apache-2.0
"""On a processor that lacks what the build was made for the package says so: qemu has older ones."""
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import norn

OLD = "Nehalem"  # of 2008: x86-64-v2, without avx


@pytest.fixture
def on_the_old_processor():
    """Runs a command there."""
    qemu = shutil.which("qemu-x86_64")
    if qemu is None:
        pytest.skip("qemu, which has older processors, is not installed: tools/install_dependencies.sh --old-processors")
    needs_more = re.search(r"-march=(native|x86-64-v[34])", norn.show_config()["build"])
    if not needs_more or " avx" not in pathlib.Path("/proc/cpuinfo").read_text():
        pytest.skip("the build needs nothing that the old processor lacks")
    return lambda *command: subprocess.run([qemu, "-cpu", OLD, *command], capture_output=True, text=True, timeout=120)


def test_an_import_is_an_error_that_names_the_instructions(on_the_old_processor):
    done = on_the_old_processor(sys.executable, "-B", "-c", """
try:
    import norn
except ImportError as error:
    print("said:", error)
print("goes on")
""")
    assert done.returncode == 0, done.stderr
    assert "said: this processor lacks avx, " in done.stdout and ", avx2, fma, " in done.stdout, done.stdout
    assert "-DNORN_ARCH=x86-64-v2, or on the oldest machine" in done.stdout and done.stdout.endswith("goes on\n")


def test_every_name_of_the_package_comes_after_that(on_the_old_processor):
    for name in ("norn.cli", "norn.implicit", "norn._core", "norn.data.where"):
        done = on_the_old_processor(sys.executable, "-B", "-c", f"import {name}")
        assert done.returncode == 1 and "ImportError: this processor lacks avx, " in done.stderr, (name, done.stderr)

# SPDX-License-Identifier: Apache-2.0
"""Packages from PyPI at fixed versions, installed beside the build for tests that read what Norn writes for others."""
import subprocess
import unittest

from programs import BIN

INSTALL_SECONDS = 300
TENSORBOARD = "tensorboard==2.18.0"
OPTUNA = "optuna==4.1.0"  # Debian 13's


def python_with(package):
    """A Python that has it, beside Debian's packages; skips the test with the reason where it cannot be installed."""
    folder = BIN.parent.parent / package.partition("=")[0]
    python, done = folder / "bin/python", folder / package
    if not done.exists():
        for command in (["/usr/bin/python3", "-m", "venv", "--system-site-packages", "--clear", folder],
                        [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", package]):
            made = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
            if made.returncode != 0:
                raise unittest.SkipTest(f"{package} cannot be installed: {(made.stderr or made.stdout).strip()[-300:]}")
        done.touch()
    return python

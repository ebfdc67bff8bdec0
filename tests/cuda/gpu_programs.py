# SPDX-License-Identifier: Apache-2.0
"""What the tests of programs on several GPUs share: how many there are, and how programs are run on so many ranks."""
import os
import pathlib
import subprocess

BIN = pathlib.Path(os.environ.get("NORN_BIN", "build/cuda/bin")).resolve()
LIMIT_SECONDS = 250


def gpus():
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return 0
    return sum(line.startswith("GPU ") for line in listed.splitlines())


def command(name, *arguments, ranks=1):
    """With mpirun on more than one rank."""
    launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)] if ranks > 1 else []
    return [*launcher, str(BIN / name), *map(str, arguments)]


def run(folder, name, *arguments, ranks=1, said="--quiet"):
    """Its stdout, or with `said` (an option that makes it speak) that and its stderr. An AssertionError where it fails."""
    done = subprocess.run(command(name, *arguments, said, ranks=ranks), capture_output=True, text=True, timeout=LIMIT_SECONDS,
                          check=False, cwd=folder)
    if done.returncode != 0:
        words = " ".join([name, *map(str, arguments)])
        raise AssertionError(f"{words} on {ranks} ranks ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout if said == "--quiet" else done.stdout + done.stderr

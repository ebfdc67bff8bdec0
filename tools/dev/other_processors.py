#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the kernels of the CPU for a processor with other registers than this one has, as the preset cpu does: other_processors.py

With AVX-512 where this machine has none, and else without: what takes a register for granted is found before somebody else builds it."""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def other_processor():
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    return "x86-64-v3" if "avx512f" in flags else "x86-64-v4"


def compiles(entry, processor):
    words = [word for word in shlex.split(entry["command"]) if not word.startswith(("-march=", "-O"))]
    words[words.index("-o") + 1] = os.devnull
    words[words.index("-c")] = "-S"
    done = subprocess.run([*words, f"-march={processor}", "-O0"], cwd=entry["directory"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{entry['file']} for {processor}:\n{done.stderr}", file=sys.stderr)
    return done.returncode == 0


def main():
    commands = json.loads((ROOT / "build/cpu/compile_commands.json").read_text())
    kernels = [entry for entry in commands if pathlib.Path(entry["file"]).parent == ROOT / "kernels/cpu"]
    if not kernels:
        sys.exit("other_processors.py: build/cpu compiles no kernels of the CPU")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        done = list(pool.map(lambda entry: compiles(entry, other_processor()), kernels))
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())

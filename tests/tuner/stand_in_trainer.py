#!/usr/bin/python3 -SE
# SPDX-License-Identifier: Apache-2.0
"""The trainer, but that a trial does what a test wants the first time: FOLDER/acts/STUDY/TRIAL says it. FOLDER/said takes who was on
which GPU, and whether somebody was there already.

  hang     computes for ever; with SIGUSR1 it takes a second for a checkpoint, and ends with 75 (ranks of a trial: each time)
  diverge  ends with 6, each time"""
import fcntl
import os
import pathlib
import signal
import sys
import time

FOLDER, REAL = pathlib.Path(os.environ["STAND_IN_FOLDER"]), os.environ["STAND_IN_TRAINER"]
trial = pathlib.Path.cwd()
if "--last-epoch" not in sys.argv:
    os.execv(REAL, [REAL, *sys.argv[1:]])


def say(what):
    with open(FOLDER / "said", "a") as file:
        file.write(f"{what}\n")


gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "none")
for one in gpu.split(","):
    lock = os.open(FOLDER / f"on-{one}", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(lock, True)  # held until the real one ends
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(trial).encode(), 0)
    except BlockingIOError:
        end = time.monotonic() + 5.0  # another rank of the same trial is about to write
        while os.pread(lock, 1000, 0).decode() != str(trial) and time.monotonic() < end:
            time.sleep(0.01)
        if os.pread(lock, 1000, 0).decode() != str(trial):
            say(f"SHARED {one} {trial}")
    fcntl.flock(lock, fcntl.LOCK_SH)
say(f"begin {trial.name} {gpu}")
act = FOLDER / "acts" / trial.parents[1].name / trial.name
what = act.read_text() if act.exists() else ""
if what == "diverge":
    sys.exit(6)
if what == "hang":
    if "OMPI_COMM_WORLD_SIZE" not in os.environ:
        act.unlink()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    say(f"hangs {trial.name}")
    signal.sigwait({signal.SIGUSR1})
    time.sleep(1.0)
    sys.exit(75)
os.execv(REAL, [REAL, *sys.argv[1:]])

# SPDX-License-Identifier: Apache-2.0
"""Trials as jobs of Slurm, one each. They are never requeued, which takes Slurm minutes: a lost one is submitted anew. Jobs are known
by their names: a controller that was killed gives numbers again."""
import os
import shlex

from ...errors import UsageError
from . import GONE, RUNNING, WAITING, Attempt, all_are
from .commands import ask, job, require

MEND = "check that slurmctld runs (scontrol ping), then run the same command again"
STOP_SECONDS = 60  # before the limit of a job's time: for a checkpoint
QUEUED = ("PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED", "RESV_DEL_HOLD", "SPECIAL_EXIT")


class Slurm:
    def __init__(self, settings: dict):
        self._settings = settings
        require("sbatch", "squeue", "scancel", "sinfo")

    def check(self) -> str:
        partition = self._settings["Partition"]
        lines = ask("sinfo", "-h", "-o", "%P %a %D", *(["-p", partition] if partition else []), mend=MEND).split()
        if not lines:
            known = " ".join(sorted({name.rstrip("*") for name in ask("sinfo", "-h", "-o", "%P", mend=MEND).split()}))
            raise UsageError(f"{self._settings.path}:{self._settings.line('Partition')}: Partition \"{partition}\" does not exist; sinfo "
                             f"has {known}")
        names, states, nodes = lines[0::3], lines[1::3], lines[2::3]
        return "; ".join(f"partition {name} is {state}, nodes: {count}" for name, state, count in zip(names, states, nodes))

    def submit(self, attempt: Attempt) -> str:
        one, (command, output) = self._settings, job(attempt)
        words = ["--parsable", "--job-name", attempt.name, "--no-requeue", "--output", output, "--open-mode", "append",
                 "--chdir", str(attempt.folder), f"--signal=B:USR1@{STOP_SECONDS}", f"--ntasks={one.ranks}"]
        for key, option in (("Partition", "--partition={}"), ("Account", "--account={}"), ("Cpus", "--cpus-per-task={}"),
                            ("Gpus", "--gres=gpu:{}")):
            words += [option.format(one[key])] if one[key] else []
        words += [f"--mem={round(1024 * one['MemoryGiB'])}M"] if one["MemoryGiB"] else []
        words += [f"--time={max(1, round(60 * one['Hours']))}"] if one["Hours"] else []
        # exec: the batch shell would not hand signals on.
        ask("sbatch", *words, *one["Options"], f"--wrap=exec {shlex.join(command)}", mend=MEND)
        return attempt.name

    def poll(self, handles: list[str]) -> dict[str, str]:
        lines = ask("squeue", "-h", "-o", "%j %T", f"--name={','.join(handles)}", f"--user={os.getuid()}", mend=MEND).splitlines()
        found = all_are(handles, GONE)
        for line in lines:
            name, state = line.split()[:2]
            found[name] = WAITING if state in QUEUED else RUNNING
        return found

    def stop(self, handle: str) -> None:
        ask("scancel", "--state=PENDING", f"--name={handle}", f"--user={os.getuid()}", mend=MEND)

    def close(self) -> None:
        pass

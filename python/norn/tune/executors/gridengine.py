# SPDX-License-Identifier: Apache-2.0
"""Trials as jobs of Grid Engine. It counts GPUs and gives none by name: an attempt takes one of GpuNames whose lock is free."""
import getpass
import xml.etree.ElementTree as xml

from . import GONE, RUNNING, WAITING, Attempt, all_are
from .commands import ask, job, require

MEND = "check that sge_qmaster runs (qhost), then run the same command again"
STOP_SECONDS = 60  # before the limit of a job's time: for a checkpoint


class GridEngine:
    def __init__(self, settings: dict):
        self._settings = settings
        require("qsub", "qstat", "qdel", "qhost")

    def check(self) -> str:
        hosts = [line for line in ask("qhost", mend=MEND).splitlines()[2:] if not line.startswith("global")]
        return f"hosts: {len(hosts)}"

    def _needs(self) -> list[str]:
        one = self._settings
        words = ["-q", one["Queue"]] if one["Queue"] else []
        words += ["-l", f"{one['GpuResource']}={one['Gpus']}"] if one["Gpus"] else []
        if one["Hours"]:
            seconds = round(3600 * one["Hours"])
            words += ["-l", f"h_rt={seconds},s_rt={max(1, seconds - STOP_SECONDS)}"]
        slots = one.ranks * (one["Cpus"] or 1)
        return words + (["-pe", one["ParallelEnvironment"], str(slots)] if one["ParallelEnvironment"] else [])

    def submit(self, attempt: Attempt) -> str:
        command, output = job(attempt)
        # A shell would not hand signals on.
        ask("qsub", "-terse", "-N", attempt.name, "-r", "n", "-notify", "-V", "-wd", str(attempt.folder), "-j", "y", "-o", output,
            *self._needs(),
            *self._settings["Options"], "-b", "y", "-shell", "n", *command, mend=MEND)
        return attempt.name

    def poll(self, handles: list[str]) -> dict[str, str]:
        found = all_are(handles, GONE)
        for one in xml.fromstring(ask("qstat", "-xml", "-u", getpass.getuser(), mend=MEND)).iter("job_list"):
            name, state = one.findtext("JB_name"), one.findtext("state") or ""
            if name in found and "E" in state:
                self.stop(name)  # it could not begin, and waits for somebody to look after it
            elif name in found:
                found[name] = WAITING if "q" in state else RUNNING
        return found

    def stop(self, handle: str) -> None:
        ask("qdel", handle, mend=MEND, nothing=("does not exist",))

    def close(self) -> None:
        pass

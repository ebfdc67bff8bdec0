# SPDX-License-Identifier: Apache-2.0
"""Trials as jobs of HTCondor, by its commands: its Python modules fit servers of their own version alone. A job that is vacated starts
again by itself, finds that its attempt has begun, and ends; the tuner submits the next one."""
import json
import pathlib

from . import GONE, JOB_OUTPUT, RUNNING, WAITING, Attempt, all_are
from .commands import ask, job, require

MEND = "check that condor_schedd runs (condor_status -schedd), then run the same command again"
VACATE_SECONDS = 120
IDLE, HELD = 1, 5
STATES = {IDLE: WAITING, 2: RUNNING, 6: RUNNING, 7: RUNNING}


def _quoted(words: list[str]) -> str:
    """As a submit file wants arguments with blanks and quotes in them."""
    inner = ("'" + word.replace("'", "''").replace('"', '""') + "'" for word in words)
    return '"' + " ".join(inner) + '"'


def _are(handles: list[str]) -> str:
    return " || ".join(f'JobBatchName == "{handle}"' for handle in handles)


class HtCondor:
    def __init__(self, settings: dict):
        self._settings = settings
        self._folders: dict[str, pathlib.Path] = {}
        require("condor_submit", "condor_q", "condor_rm", "condor_status")

    def check(self) -> str:
        ask("condor_q", "-totals", mend=MEND)
        slots = ask("condor_status", "-af", "Name", mend=MEND).split()
        return f"slots: {len(slots)}"

    def submit(self, attempt: Attempt) -> str:
        one, (command, output) = self._settings, job(attempt)
        lines = [f"executable = {command[0]}", f"arguments = {_quoted(command[1:])}", "transfer_executable = False",
                 "should_transfer_files = NO",
                 f"initialdir = {attempt.folder}", f"output = {output}", f"error = {output}", "getenv = True",
                 f"batch_name = {attempt.name}",
                 "kill_sig = SIGUSR1", f"job_max_vacate_time = {VACATE_SECONDS}", f"request_cpus = {one.ranks * (one['Cpus'] or 1)}"]
        lines += [f"request_gpus = {one['Gpus']}"] if one["Gpus"] else []
        lines += [f"request_memory = {round(1024 * one['MemoryGiB'])}MB"] if one["MemoryGiB"] else []
        ask("condor_submit", "-terse", "-", text="\n".join([*lines, *one["Options"], "queue", ""]), mend=MEND)
        self._folders[attempt.name] = attempt.folder
        return attempt.name

    def poll(self, handles: list[str]) -> dict[str, str]:
        found = all_are(handles, GONE)
        said = ask("condor_q", "-json", "-attributes", "JobBatchName,JobStatus,HoldReason", "-constraint", _are(handles), mend=MEND)
        for one in json.loads(said or "[]"):
            name = one["JobBatchName"]
            if one["JobStatus"] == HELD:  # it could not begin, and waits for somebody to look after it
                self._say(name, f"held: {one.get('HoldReason')}")
                self.stop(name)
            found[name] = STATES.get(one["JobStatus"], GONE)
        return found

    def _say(self, name: str, text: str) -> None:
        """Where an attempt says why it never began; those of an earlier tuner are begun anew anyway."""
        if name in self._folders:
            with open(self._folders[name] / JOB_OUTPUT, "a", encoding="utf-8") as file:
                file.write(f"{text}\n")

    def stop(self, handle: str) -> None:
        ask("condor_rm", "-constraint", f"({_are([handle])}) && (JobStatus == {IDLE} || JobStatus == {HELD})", mend=MEND,
            nothing=("Couldn't find",))

    def close(self) -> None:
        pass

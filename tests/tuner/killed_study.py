# SPDX-License-Identifier: Apache-2.0
"""A study of the real tuner and its real trials on quick trainings (quick_trainer.py), of which tuner, trials and trainers are killed with
-9 at random moments; and what an undisturbed one decides, which is simulated in this process."""
import datetime
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import quick_trainer
import simulated_study
from tuner_case import NETWORK, ROOT
from programs import BIN
from norn.tune import plain
from norn.tune.program import Price, Trainer
from norn.tune.study import Study

TUNER, TRAINER = ROOT / "tools/tuner.py", pathlib.Path(quick_trainer.__file__).resolve()
KINDS = ("tuner", "trial", "trainer")
PATIENCE = 120.0


class Undisturbed:
    """The quick trainer, as simulated workers ask one."""

    value, breaks, epoch_seconds = (staticmethod(one) for one in (quick_trainer.value, quick_trainer.breaks, quick_trainer.epoch_seconds))

    @staticmethod
    def plan(config):
        network = json.loads(config.read_text())
        return Price(quick_trainer.fits(network), quick_trainer.EXAMPLES / quick_trainer.epoch_seconds(network), 1)

    @staticmethod
    def command(until, seed, threads, examples=False):
        return []


class KilledStudy:
    """In a folder of its own; `options` are for each of its tuners."""

    def __init__(self, folder: pathlib.Path, workers: int, chance: random.Random, name: str = "study", options: tuple = ()):
        self.folder, self.workers, self.chance, self.options = folder, workers, chance, options
        self.study = folder / name
        self.struck = dict.fromkeys(KINDS, 0)
        self.restarts: list[tuple[int, float]] = []  # (trials told before, seconds to the first submission) of each tuner that came so far
        self._read, self._told = 0, 0
        network = json.loads(json.dumps(NETWORK))
        network["Training"].update(Alpha=0.01, Batch=64, Epochs=simulated_study.EPOCHS)
        network["Layers"][1].update(N=64, Activation="Tanh")
        for name, value in (("net.json", network), ("space.json", {"Parameters": simulated_study.PARAMETERS}), ("train.nc", {})):
            (folder / name).write_text(json.dumps(value))

    def _start(self, trials: int) -> subprocess.Popen:
        words = ["--study", self.study.name, "--trainer", TRAINER, "--workers", self.workers, "--trials", trials, "--confirm", 0, "--quiet",
                 *self.options]
        if not (self.study / "study.json").exists():
            words += ["-c", "net.json", "--space", "space.json", "-i", "train.nc", "--sampler", "random", "--rungs", "2,6", "--clock", 8,
                      "--",
                      "--validation-split", "0.1"]
        return subprocess.Popen([sys.executable, "-B", str(TUNER), *map(str, words)], cwd=self.folder, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)

    def run(self, trials: int, kills: int) -> None:
        """To the end of the study, with so many kills while its first four fifths are made; fewer where it is over sooner."""
        moments = sorted(self.chance.randrange(trials * 4 // 5) for _ in range(kills))
        while True:
            begun, told, before = time.time(), self.told(), self._read
            process = self._start(trials)
            try:
                while process.poll() is None and moments:
                    if self.told() < moments[0]:
                        time.sleep(0.01)
                        continue
                    time.sleep(self.chance.uniform(0.0, 0.2))
                    if self._strike(process):
                        moments.pop(0)
                _, said = process.communicate(timeout=None if not moments else PATIENCE)
            finally:
                process.kill()
            first = self._first_submission(before)
            if first is not None:
                self.restarts.append((told, first - begun))
            if process.returncode == 0:
                return
            if process.returncode != -signal.SIGKILL:
                raise AssertionError(f"tuner ended with {process.returncode}: {said}")

    def _strike(self, process: subprocess.Popen) -> bool:
        what = self.chance.choice(KINDS)
        found = [process.pid] if what == "tuner" else self._processes(what)
        if not found or process.poll() is not None:
            return False
        try:
            os.kill(self.chance.choice(found), signal.SIGKILL)
        except ProcessLookupError:
            return False
        self.struck[what] += 1
        return True

    def _processes(self, what: str) -> list[int]:
        """Those of the study's trials, or of their trainers."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0") if entry.name.isdigit() else []
                ours = any(word.startswith(f"{self.study}/trials/") for word in words) if what == "trial" else (
                    str(TRAINER) in words and "--last-epoch" in words and os.readlink(entry / "cwd").startswith(f"{self.study}/"))
            except OSError:
                continue
            if ours:
                found.append(int(entry.name))
        return found

    def told(self) -> int:
        """Trials that have ended so far."""
        path = self.study / "journal.jsonl"
        if path.exists():
            with open(path, "rb") as file:
                file.seek(self._read)
                new = file.read()
            whole = new.rfind(b"\n") + 1
            self._read += whole
            self._told += new[:whole].count(b'"event": "tell"')
        return self._told

    def events(self) -> list[dict]:
        lines = (self.study / "journal.jsonl").read_bytes().split(b"\n")[:-1] if (self.study / "journal.jsonl").exists() else []
        return [json.loads(line) for line in lines]

    def _first_submission(self, before: int) -> float | None:
        """When a training was first given to a worker, of what stands in the journal after so many bytes."""
        path = self.study / "journal.jsonl"
        for line in path.read_bytes()[before:].split(b"\n")[:-1] if path.exists() else []:
            event = json.loads(line)
            if event["event"] == "submit":
                return datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()
        return None

    def check(self, trials: int) -> None:
        """Each trial is told once, all decisions are those of an undisturbed study, and no folder ever had two trainers."""
        events = self.events()
        told = [event["trial"] for event in events if event["event"] == "tell"]
        assert sorted(told) == list(range(trials)), f"told: {sorted(told)}"
        self._compare(events, trials)
        shared = list(self.study.glob("trials/*/shared"))
        assert not shared, f"two trainers were at work at once: {shared}"
        [end] = [event for event in events if event["event"] == "end"][-1:]
        kept = "plain" if end["kept"] == "plain" else f"{end['best']:04d}"
        assert (self.study / "best.nc").read_bytes() == (self.study / f"trials/{kept}/model.nc").read_bytes(), kept
        assert end["comparison"] == self._comparison(events, end["best"]), end
        left = [pid for what in KINDS[1:] for pid in self._processes(what)]
        assert not left, f"processes are left: {left}"

    def _comparison(self, events: list[dict], best: int) -> dict:
        """Of values that the quick trainer gives, by whoever was not killed."""
        study = Study.open(self.study)
        [settings] = [event["settings"] for event in events if event["event"] == "propose" and event["trial"] == best]
        for name, network in (("plain", study.network), ("trial", study.network_of(settings))):
            folder = self.folder / "expected" / name / "run"
            folder.mkdir(parents=True, exist_ok=True)
            quick_trainer.write_examples(network, study.epochs, study.objective, str(folder / "validation_values.tsv"))
        looked_at = sum(event["event"] == "tell" and event["value"] is not None for event in events)
        trainer = Trainer(BIN / "trainer", [], [], [], study.objective, None, 1)
        return plain.compare(trainer, self.folder / "expected/trial", self.folder / "expected/plain", looked_at)

    def _compare(self, events: list[dict], trials: int) -> None:
        calm = self.folder / f"calm-{self.study.name}"
        calm.mkdir()
        shutil.copy(self.study / "study.json", calm)
        study = Study.open(calm)
        decided, _ = simulated_study.run(study, simulated_study.Workers(Undisturbed, 1, random.Random(1)), trials)
        for kind, undisturbed in decided.items():
            found = [event for event in events if event["event"] == kind]
            assert len(found) == len(undisturbed), f"{kind}: {len(found)} events instead of {len(undisturbed)}"
            for one, other in zip(found, undisturbed):
                differing = {key for key in other if key != "checksum" and one.get(key) != other[key]}
                assert not differing, f"{kind} of trial {one['trial']}: {differing}"
        settings = {event["trial"]: event["settings"] for event in events if event["event"] == "propose"}
        for event in events:
            if event["event"] == "value":
                last = max(map(int, event["values"]))
                trained = settings[event["trial"]] if "trial" in event else {}
                assert event["checksum"] == quick_trainer.checksum(study.network_of(trained), last), f"trial {event.get('trial')}"

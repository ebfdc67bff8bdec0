# SPDX-License-Identifier: Apache-2.0
"""Makes a search again (--repeat) and compares it, decision by decision, with what stands in the journal of the first one: proposals,
plans, verdicts, the checksum of each trial's model, and in the end the bytes of the best one."""
import filecmp
import os
import pathlib
import uuid
from typing import Any

from .._script import called_as
from ..errors import DataError, Error, UsageError
from .facts import STAGE, Facts
from .journal import read_events
from .sampler import REPEATABLE
from .study import Study, write_identity
from .voice import Voice

BUDGET = ("trials", "epoch_budget", "gpu_hours", "hours", "confirm", "seeds", "plain")
FIXED = ("config", "space", "objective", "epochs", "sampler", "start", "halving", "rungs", "clock", "seed", "ranks", "sources", "machine",
         *BUDGET)
CAUSES = {"propose": "from the same results: the processor, numpy, scipy or the tuner is another",
          "plan": "the trainer is another build",
          "rung": "the training gave other bits: check the hardware (trainer --doctor, --verify), and that the program is the same build",
          "tell": "the training gave other bits: check the hardware (trainer --doctor, --verify), and that the program is the same build"}


class Differs(Error):
    """The search that was made again is not the first one."""


class Original:
    """The study that is made again."""

    def __init__(self, folder: pathlib.Path):
        if not (folder / "study.json").exists():
            raise DataError(f"{folder}: the study that is to be repeated is not there; put it back")
        self.study = Study.open(folder)
        self.facts = Facts.read_only(folder / "journal.jsonl", read_events(folder / "journal.jsonl")[0])
        if self.facts.ended is None:
            raise UsageError(f"--repeat: the study {folder} has not ended; let it end first: {called_as('tuner')} --study {folder}")
        if self.study.identity["sampler"] not in REPEATABLE:
            raise UsageError(f"--repeat: the study {folder} has the sampler {self.study.identity['sampler']}, whose proposals follow from "
                             f"more than the study; {', '.join(REPEATABLE)} can be repeated")

    @property
    def folder(self) -> pathlib.Path:
        return self.study.folder

    def note_budgets(self, facts: Facts, about: dict[str, Any]) -> None:
        """The same ones in the same order. What --hours cut short counts as so many trials."""
        last = {"plain": False, **{key: self.facts.budget[key] for key in ("confirm", "seeds", "plain") if key in self.facts.budget}}
        for stage in self.facts.stages[len(facts.stages):]:
            facts.note("open", {"budget": {**{key: stage.get(key) for key in STAGE}, **last}, "stage": True, **about})
        facts.note("open", {"budget": facts.budget, "stage": False, **about})

    def compare(self, kind: str, at: int, members: dict[str, Any]) -> None:
        """A decision: number `at` of its kind."""
        there = self.facts.decided[kind][at] if at < len(self.facts.decided[kind]) else {}
        if there == members:
            return
        what = {"propose": "the proposal of", "plan": "the plan of", "rung": "the verdict on", "tell": "the end of"}[kind]
        key = next((key for key in {**there, **members} if there.get(key) != members.get(key)), "trial")
        if key == "row" and there.get("settings") != members.get("settings"):
            key = "settings"
        raise Differs(f"{what} trial {members['trial']} is another one than in {self.folder}: {key} {_text(members.get(key))} now, "
                      f"{_text(there.get(key))} there; {CAUSES[kind]}")

    def conclude(self, result: dict[str, Any], folder: pathlib.Path) -> str:
        """Compares what came of both; says that they are the same."""
        for key in ("best", "value", "confirmed", "kept", "comparison"):
            before = self.facts.ended.get(key, "trial" if key == "kept" else None)  # of a study that was made before there was a comparison
            if result[key] != before:
                raise Differs(f"{folder}: {key} is {_text(result[key])}, and {_text(before)} in {self.folder}; "
                              f"{CAUSES['tell']}")
        model = self.folder / "best.nc"
        if not model.exists():
            raise DataError(f"{model}: is not there, so the best models cannot be compared; all decisions were the same")
        if not filecmp.cmp(model, folder / "best.nc", shallow=False):
            raise Differs(f"{folder}/best.nc: has other bytes than {model}; {CAUSES['tell']}")
        counts = {kind: len(decided) for kind, decided in self.facts.decided.items()}
        return (f"repeated {self.folder}: {counts['propose']} proposals, {counts['rung']} verdicts, the checksums of all models and the "
                f"bytes of the best one are the same")


def _text(value: Any) -> str:
    return "nothing" if value is None else str(value)


def _other_places(name: str, recorded: list[str], given: list[str]) -> list[str]:
    """Files that have moved; their contents are compared with the recorded checksums before anything is trained."""
    if given and len(given) != len(recorded):
        raise UsageError(f"--repeat: {name}: {len(given)} are given, and the study had {len(recorded)}: {' '.join(recorded) or 'none'}")
    return given or recorded


def _refuse(wish: Any, names: tuple[str, ...]) -> None:
    given = [name for name in names if getattr(wish, name) is not None]
    if given:
        raise UsageError(f"--{given[0].replace('_', '-').replace('sources', 'from')}: cannot be given for a search that is made again as "
                         f"it was; leave it out")


def begin(folder: pathlib.Path, wish: Any, trainer: pathlib.Path, handed: list[str]) -> Study:
    """A study that is to become the same as the one whose study.json --repeat names."""
    _refuse(wish, FIXED)
    path = pathlib.Path(os.path.abspath(wish.repeat))
    original = Original(path.parent if path.name == "study.json" else path)
    one = original.study.identity
    data = {key: _other_places(option, one[key], [os.path.abspath(file) for file in getattr(wish, name) or []])
            for key, name, option in (("inputs", "input", "-i"), ("outputs", "output_data", "-o"))}
    identity = {**one, **data, "options": _other_places("options behind --", one["options"], handed), "study": str(uuid.uuid4()),
                "repeats": {"study": one["study"], "folder": str(original.folder)}}
    study = Study(folder, identity)
    folder.mkdir(parents=True, exist_ok=True)
    for warning in study.check_data(study.trainer(trainer)):
        Voice(study, wish.quiet).warn(f"warning: {warning}")
    write_identity(folder, identity)
    return study


def original_of(study: Study, wish: Any) -> Original | None:
    """What a study repeats; None: it is a search of its own."""
    about = study.identity.get("repeats")
    if about is None:
        if wish.repeat:
            raise UsageError(f"--repeat: the study {study.folder} is a search of its own; give another --study")
        return None
    _refuse(wish, BUDGET)
    original = Original(pathlib.Path(about["folder"]))
    if original.study.identity["study"] != about["study"]:
        raise DataError(f"{original.folder}: is another study than the one that {study.folder} repeats; put that one back")
    return original


__all__ = ["Differs", "Original", "begin", "original_of"]

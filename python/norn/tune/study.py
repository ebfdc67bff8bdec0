# SPDX-License-Identifier: Apache-2.0
"""A study: its folder, and what it is made of (study.json). The identity never changes: what is found follows from it and from
values. How far and on what the study runs is not part of it."""
import json
import os
import pathlib
import uuid
from typing import Any

from .._files import JsonText, read_json, write_json
from ..errors import DataError, UsageError
from . import descriptor
from .program import Trainer, digest_of_file
from .search import Rules
from .space import Space, read_space, space_of
from .standing import standing

FORMAT = 1
ALGORITHM = 4       # proposals of another number would be others
DEFAULT_METRIC = "ndcg@20"
DEFAULT_EPOCHS = 40  # the trainer's, who leaves out of a complete descriptor what is its default
TYPES = {**dict.fromkeys(("seed", "clock", "start", "ranks"), int), **dict.fromkeys(("sampler", "objective", "study"), str),
         **dict.fromkeys(("descriptor", "space", "made_of"), dict), **dict.fromkeys(("rungs", "inputs", "outputs", "options"), list)}
SEEN = "seen.json"
CLOCK = 4  # at least, of a study that is not told
IDENTITY = ("seed", "clock", "sampler", "start", "halving", "rungs", "ranks", "objective", "epochs")
RUNG_SHARES = (15, 5, 5 / 3)


def default_clock(workers: int) -> int:
    """Logical slots: more than there are workers, so that there is something to train while a slot waits for a slower one's result."""
    return max(CLOCK, workers + -(-workers // 4))


def default_rungs(epochs: int) -> list[int]:
    """A fifteenth, a fifth and three fifths of a training."""
    return sorted({round(epochs / share) for share in RUNG_SHARES} - {0} - {epochs})


def _most_epochs(network: dict, space: Space) -> int:
    for one in space.dimensions:
        if one.path.casefold() == "training.epochs":
            return int(max(one.value(place) for place in one.ends()))
    return _epochs_of(network)


def _epochs_of(network: dict) -> int:
    return int(descriptor.get(descriptor.get(network, "Training", {}), "Epochs"))


def _prepare(network: dict, wish: Any) -> dict:
    """The descriptor that trials change: without what ends a training by itself or makes it twice."""
    training = network.setdefault(descriptor.key_in(network, "Training"), {})
    if wish.epochs is not None:
        training[descriptor.key_in(training, "Epochs")] = wish.epochs
    training.setdefault(descriptor.key_in(training, "Epochs"), DEFAULT_EPOCHS)
    for key in ("EarlyStop", "KeepBest", "Refit", "LastEpoch"):
        training.pop(descriptor.key_in(training, key), None)
    return network


def objective_of(network: dict, wanted: str | None) -> str:
    training = descriptor.get(network, "Training", {})
    return wanted or descriptor.get(training, "EarlyStop") or descriptor.get(training, "KeepBest") or DEFAULT_METRIC


class Study:
    """Of a folder with a study.json."""

    def __init__(self, folder: pathlib.Path, identity: dict[str, Any]):
        self.folder, self.identity = folder, identity
        self._trials = folder / "trials"
        self.network: dict = identity["descriptor"]
        self.space: Space = space_of(identity["space"], self.network, str(folder / "study.json"))
        self.objective: str = identity["objective"]
        self.sign = -1.0 if self.objective.casefold() == "loss" else 1.0
        self.rules = Rules(identity["clock"], tuple(identity["rungs"]), identity["halving"] or 2)

    @classmethod
    def open(cls, folder: pathlib.Path, any_algorithm: bool = False) -> "Study":
        """`any_algorithm`: its results alone are read, which are as good where an older version has proposed."""
        path = folder / "study.json"
        identity = read_json(path)
        if not isinstance(identity, dict) or identity.get("format") != FORMAT or (
                identity.get("algorithm") != ALGORITHM and not any_algorithm):
            raise DataError(f"{path}: is no study of this version of the tuner (expected format {FORMAT}, algorithm {ALGORITHM}); "
                            f"begin another one, which --from lets know what this one found")
        identity.setdefault("ranks", 1)  # studies before --ranks
        missing = [key for key in (*IDENTITY, "descriptor", "space", "inputs", "outputs", "options", "made_of") if key not in identity]
        if missing:
            raise DataError(f"{path}: \"{missing[0]}\" is missing; restore the file from a copy")
        strange = [key for key, kind in TYPES.items() if key in identity and type(identity[key]) is not kind]
        strange += ["rungs"] if not strange and not all(type(rung) is int for rung in identity["rungs"]) else []
        strange += [key for key in ("halving", "epochs") if identity[key] is not None and type(identity[key]) is not int]
        if strange:
            raise DataError(f"{path}: \"{strange[0]}\" is {json.dumps(identity[strange[0]])[:60]}; something has changed it: restore the "
                            "file from a copy")
        return cls(folder, identity)

    def trainer(self, program: pathlib.Path) -> Trainer:
        one = self.identity
        return Trainer(program, one["inputs"], one["outputs"], one["options"], self.objective, one["machine"], one["ranks"])

    @property
    def epochs(self) -> int:
        """Of the plain recipe."""
        return _epochs_of(self.network)

    def trial_folder(self, name: str) -> pathlib.Path:
        return self._trials / name

    def network_of(self, settings: dict[str, Any]) -> dict:
        return descriptor.apply(self.network, settings)

    def shown(self, value: float | None) -> float | None:
        """A value as the metric has it: of the loss less is better."""
        return None if value is None else self.sign * value

    def refuse_other(self, wish: Any) -> None:
        """Options that were given again must say what the study was begun with."""
        for key in IDENTITY:
            given = getattr(wish, key)
            if given is not None and given != self.identity[key]:
                raise UsageError(f"--{key} {_text(given)}: the study {self.folder} was begun with {_text(self.identity[key])}; "
                                 f"leave the option out, or begin another study")
        for key, option in (("input", "inputs"), ("output_data", "outputs")):
            given = [os.path.abspath(file) for file in getattr(wish, key) or []]
            if given and given != self.identity[option]:
                raise UsageError(f"--{key.replace('_', '-')} {given[0]}: the study {self.folder} was begun with "
                                 f"{', '.join(self.identity[option]) or 'none'}; leave the option out, or begin another study")
        for key in ("config", "space"):
            given = getattr(wish, key)
            if given is not None and digest_of_file(given) != self.identity[f"{key}_digest"]:
                raise UsageError(f"{given}: is not what the study {self.folder} was begun with; leave the option out, or begin another "
                                 f"study (--from {self.folder} lets it know what this one found)")

    @property
    def _data(self) -> list[str]:
        """Its files; an option may be a file's name with its own before it."""
        one = self.identity
        words = [*one["inputs"], *one["outputs"], *one["options"], *(word.partition("=")[2] for word in one["options"])]
        return [word for word in words if os.path.isfile(word)]

    def note_seen(self, made: str, stands: dict[str, Any]) -> None:
        """`stands` is from before what has been seen was read."""
        write_json(self.folder / SEEN, {**stands, "made": made, "data": [digest_of_file(name) for name in self._data]})

    def stands(self, trainer: Trainer) -> dict[str, Any]:
        return standing(trainer.program, self._data)

    def seen(self) -> tuple[str, list[str]]:
        """(trial.made_of of what trains here, digests of the files of the data) as they were last looked at."""
        one = read_json(self.folder / SEEN)
        return one["made"], one["data"]

    def _was_seen(self, stands: dict[str, Any]) -> bool:
        try:
            before = read_json(self.folder / SEEN)
        except DataError:
            return False
        return isinstance(before, dict) and {"made",
                                             "data"} <= before.keys() and all(before.get(key) == value for key, value in stands.items())

    def check_data(self, trainer: Trainer) -> list[str]:
        """Data must have the contents that the study was begun with; what else is another is said, and bits may differ."""
        stands = self.stands(trainer)
        if self._was_seen(stands):
            return []
        write_json(self.folder / "net.json", self.network)
        (found, made), known = trainer.probe(self.folder / "net.json", self.folder / "probe"), self.identity["made_of"]
        for key in ("sets", "validation_sets"):
            if found[key] != known[key]:
                one = next((a for a, b in zip(found[key], known[key]) if a != b), {"name": key})
                raise DataError(f"{', '.join(self.identity['inputs'])}: data set \"{one['name']}\" has other contents than the study "
                                f"{self.folder} was begun with; restore the data, or begin another study (--from {self.folder} lets it "
                                "know what this one found)")
        self.note_seen(made, stands)
        names = {"binary": "the trainer is another build", "device_name": "the device is another", "precision": "the precision is another"}
        return [f"{text} ({known[key]} before, {found[key]} now); values may differ in their last bits" for key, text in names.items()
                if found[key] != known[key]]


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def draft(wish: Any, program: pathlib.Path, options: list[str]) -> tuple[dict, Trainer]:
    """(the identity that a new study would have but for what must be run first, its trainer)."""
    for key in ("config", "space", "input"):
        if not getattr(wish, key):
            raise UsageError(f"{wish.study or 'a new study'}: holds no study yet; a new one needs --{key}")
    JsonText(wish.config)  # says what is wrong with the JSON by line
    inputs, outputs = [os.path.abspath(f) for f in wish.input], [os.path.abspath(f) for f in wish.output_data or []]
    objective = wish.objective
    machine = os.path.abspath(wish.machine) if wish.machine else None
    if machine and os.path.exists(machine) and not os.path.isfile(machine):
        raise UsageError(f"{wish.machine}: is no regular file; name the description of a machine with --machine")
    trainer = Trainer(program, inputs, outputs, options, objective or DEFAULT_METRIC, machine, wish.ranks or 1)
    network = trainer.complete(pathlib.Path(os.path.abspath(wish.config)))
    trainer.objective = objective = objective_of(network, wish.objective)
    network = _prepare(network, wish)
    validates = any(word.partition("=")[0] in ("--validation-input", "--validation-split") for word in options)
    if not validates and not descriptor.get(descriptor.get(network, "Training", {}), "ValidationSplit"):
        raise UsageError("nothing to compare trials by: give --validation-input and --validation-output, or --validation-split 0.1")
    space, value = read_space(wish.space, network)
    sampler = wish.sampler or "gp"
    halving = 2 if wish.halving is None else wish.halving
    rungs = [] if not halving else wish.rungs if wish.rungs is not None else default_rungs(_most_epochs(network, space))
    start = wish.start if wish.start is not None else 0 if wish.sources else 10
    return {"format": FORMAT, "algorithm": ALGORITHM, "study": str(uuid.uuid4()), "descriptor": network, "space": value,
            "config_digest": digest_of_file(wish.config), "space_digest": digest_of_file(wish.space),
            "seed": 1 if wish.seed is None else wish.seed, "clock": wish.clock or default_clock(wish.workers), "sampler": sampler,
            "start": start,
            "halving": halving, "rungs": rungs, "ranks": wish.ranks or 1, "objective": objective, "epochs": wish.epochs, "inputs": inputs,
            "outputs": outputs,
            "options": options, "machine": machine, "machine_digest": digest_of_file(machine) if machine else None}, trainer


def _fix_part(identity: dict) -> None:
    """What is held back is the same for all trials and for trainings with other seeds: by other examples they could not be compared."""
    given = {word.partition("=")[0] for word in identity["options"]}
    if not given & {"--validation-input", "--validation-seed"}:
        training = identity["descriptor"][descriptor.key_in(identity["descriptor"], "Training")]
        training.setdefault(descriptor.key_in(training, "ValidationSeed"), identity["made_of"]["seed"])


def create(folder: pathlib.Path, identity: dict, trainer: Trainer) -> Study:
    """Asks the trainer what the study is made of, and writes study.json last: a folder without one is no study."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be made: {error.strerror}; give another --study") from error
    if (folder / "journal.jsonl").exists():
        raise DataError(f"{folder}: has a journal but no study.json; restore study.json from a copy, or give another --study")
    write_json(folder / "net.json", identity["descriptor"])
    study = Study(folder, identity)
    stands = study.stands(trainer)
    identity["made_of"], made = trainer.probe(folder / "net.json", folder / "probe")
    _fix_part(identity)
    study = Study(folder, identity)
    study.note_seen(made, stands)
    write_identity(folder, identity)
    return study


def write_identity(folder: pathlib.Path, identity: dict) -> None:
    """study.json, once: whoever comes second is refused."""
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f"study.json.{os.getpid()}"
    write_json(new, identity)
    try:
        os.link(new, folder / "study.json")
    except FileExistsError as error:
        raise UsageError(f"{folder}: another tuner has begun a study there meanwhile; give another --study, or leave out what begins "
                         "one") from error
    finally:
        new.unlink(missing_ok=True)

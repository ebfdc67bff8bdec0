# SPDX-License-Identifier: Apache-2.0
"""Files that were damaged or made by somebody who meant harm: every program that reads them says so, or works as if they were whole."""
import json

import mutations
from cases import Finding
from material import TRAIN

THREADS = ("--threads", "1")
PREDICT = ("predictor", "-n", "model.nc", "-s", "out.txt", "-k", "7", *THREADS)
REQUESTS = ("-r", "train.txt", "-i", "features", "-o", "features")
EVALUATE = ("evaluator", "-n", "model.nc", "-i", "train.nc", "-k", "5,10", *THREADS)
IMPORT = ("importer", "--name", "s", "--output", "out.nc", "--features", "out.features")
RESUME = (*TRAIN, "--resume", "checkpoint.nc")
MIXED = ("trainer", "-c", "mixed.json", "-i", "mixed.nc", "-n", "out.nc", "-e", "1", *THREADS)
NEEDED = {"-c", "-i", "-n", "-r", "-o", "-f", "--resume", "--input", "--allow", "--machine", "--cdl", "--repeat"}

# What is spoilt, how, the command that reads it, and whether a success must be that of the whole file.
TARGETS = [
    ("train.nc", "byte item", TRAIN, False),
    ("train.nc", "byte item", (*TRAIN, "--data-memory", "1"), False),
    ("train.nc", "byte item", EVALUATE, False),
    ("plain.nc", "byte item", ("predictor", "-n", "model.nc", "--data", "plain.nc", "-s", "out.txt", *THREADS), False),
    ("mixed.nc", "byte item", MIXED, False),
    ("mixed.nc", "byte item", ("evaluator", "-n", "mixed_model.nc", "-i", "mixed.nc", *THREADS), False),
    ("model.nc", "byte", (*PREDICT, *REQUESTS), True),
    ("model.nc", "byte", EVALUATE, True),
    ("model.nc", "byte", ("trainer", "-c", "model.nc", *TRAIN[3:]), True),
    ("bare.nc", "byte item", ("predictor", "-n", "bare.nc", "-s", "out.txt", *REQUESTS, *THREADS), False),
    ("dsstne.nc", "byte item", ("predictor", "-n", "dsstne.nc", "-s", "out.txt", *REQUESTS, *THREADS), False),
    ("dsstne.nc", "item", ("evaluator", "-n", "dsstne.nc", "-i", "train.nc", *THREADS), False),
    ("checkpoint.nc", "byte", RESUME, True),
    ("within.nc", "byte", (*TRAIN, "--resume", "within.nc"), True),
    ("bare_checkpoint.nc", "byte item", (*TRAIN, "--resume", "bare_checkpoint.nc"), False),
    ("features", "byte word", (*PREDICT, *REQUESTS), False),
    ("features", "byte word", ("importer", "--input", "train.txt", "--name", "s", "--output", "out.nc", "--features", "features"), False),
    ("train.txt", "byte word", (*IMPORT, "--input", "train.txt"), False),
    ("train.txt", "byte word", (*IMPORT, "--input", "train.txt", "--split", "ratio:0.8/0.2", "--skip-malformed", "9"), False),
    ("values.txt", "byte word", (*IMPORT, "--input", "values.txt", "--type", "analog", "--duplicates", "sum"), False),
    ("train.libsvm", "byte word", (*IMPORT, "--input", "train.libsvm"), False),
    ("train.csv", "byte word", (*IMPORT, "--input", "train.csv", "--type", "analog"), False),
    ("train.txt.gz", "byte", (*IMPORT, "--input", "train.txt.gz"), False),
    ("train.txt", "byte word", (*PREDICT, *REQUESTS), False),
    ("values.txt", "byte word", (*PREDICT, "-f", "values.txt", "--filter-mode", "scale", *REQUESTS), False),
    ("allow.txt", "byte word", (*PREDICT, "--allow", "allow.txt", *REQUESTS), False),
    ("net.json", "byte json", TRAIN, False),
    ("machine.json", "byte json", (*TRAIN, "--plan", "--ranks", "4", "--machine", "machine.json"), False),
    ("train.cdl", "byte json", ("trainer", "--cdl", "train.cdl", "-e", "1", *THREADS), False),
    ("predict.cdl", "byte json", ("predictor", "--cdl", "predict.cdl", *THREADS), False),
    ("run/run.json", "byte json", ("trainer", "--repeat", "run/run.json", "-n", "out.nc", *THREADS), False),
]
OUTPUTS = ("out.nc", "out.txt", "out.features")
whole = {}  # what each command gives for the whole file


def files_of(base, command):
    """The files that a command names, and those that these need."""
    names = {word for word in command[1:] if isinstance(word, str) and (base / word).is_file()}
    if "run/run.json" in names or names & {"train.cdl", "predict.cdl"}:
        names |= {"net.json", "train.nc", "model.nc"}
    return sorted(names)


def outcome(case, done):
    return {"out": done.out if done.command[0] == "evaluator" else b"", **{name: case.bytes_of(name) for name in OUTPUTS}}


def spoil(case, name, how):
    path = case.path(name)
    if how == "item":
        return mutations.by_item(case.random, path)
    change = {"byte": mutations.by_byte, "word": mutations.by_word, "json": mutations.by_json_value}[how]
    data, done = change(case.random, path.read_bytes())
    path.write_bytes(data)
    return done


def check_success(case, base, command, done):
    """What was written can be read by the next program."""
    if "--plan" in command or case.random.random() < 0.5:
        return
    if command[0] == "trainer" and case.path("out.nc").exists() and "train.nc" in command:
        case.bring(base, "train.nc")
        after = case.run("predictor", "-n", "out.nc", "--data", "train.nc", "-s", "after.txt", *THREADS)
        if after.code not in (0, 2):  # 2: the network reads other data
            raise Finding(f"{done}\nwrote a model that cannot be read:\n{after}")
    elif command[0] == "importer" and case.path("out.nc").exists():
        case.path("net.json").write_text(json.dumps({"ErrorFunction": "L2", "Layers": [
            {"Name": "I", "Kind": "Input", "N": "auto", "DataSet": "s_input"}, {"Name": "H", "N": 2, "Activation": "Tanh"},
            {"Name": "O", "Kind": "Output", "N": "auto", "DataSet": "s_output"}]}))
        case.run("trainer", "-c", "net.json", "-i", "out.nc", "-n", "after.nc", "-e", "1", *THREADS)


def attack(case, base):
    number = case.random.randrange(len(TARGETS))
    name, hows, command, must_agree = TARGETS[number]
    how = case.random.choice(hows.split())
    if must_agree and number not in whole:
        case.bring(base, *files_of(base, command))
        whole[number] = outcome(case, case.succeed(*command))
        for output in OUTPUTS:
            case.path(output).unlink(missing_ok=True)
    case.bring(base, *files_of(base, command))
    before = case.path(name).read_bytes()
    case.note(f"{name}: {spoil(case, name, how)}")
    done = case.run(*command)
    if done.code != 0 and any(case.path(output).exists() for output in OUTPUTS):
        raise Finding(f"failed, and left an output: {done}")
    if done.code == 0 and (must_agree or case.path(name).read_bytes() == before) and number in whole \
            and outcome(case, done) != whole[number]:
        raise Finding(f"took a damaged {name} and gave something else: {done}")
    if done.code == 0:
        check_success(case, base, command, done)

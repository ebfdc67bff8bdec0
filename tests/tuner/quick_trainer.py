#!/usr/bin/python3 -IS
# SPDX-License-Identifier: Apache-2.0
"""A trainer that trains nothing, as far as tuner asks one: its values follow from the descriptor, an epoch takes a hundredth of a second,
and it goes on from what it wrote after each. So a thousand trials with real processes take minutes. As a module it says what it would
give."""
import fcntl
import hashlib
import json
import math
import os
import signal
import sys
import time

EXAMPLES, EPOCH_SECONDS = 1000, 0.01


def _parts(network):
    return network["Training"], next(layer for layer in network["Layers"] if layer["Name"] == "Hidden")


def _luck(network, what):
    """From 0 to 1."""
    digest = hashlib.sha256(json.dumps([what, *_parts(network)], sort_keys=True).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def value(network, epoch):
    training, hidden = _parts(network)
    best = 1.0 - 0.1 * math.log(training["Alpha"] / 3e-3) ** 2 - 0.2 * abs(math.log2(hidden["N"] / 512)) - 0.1 * (training["Batch"] > 100)
    return round(best - (0.3 + 0.3 * _luck(network, "value")) / epoch, 9)


def breaks(network):
    """The epoch at which it diverges."""
    return 2 if network["Training"]["Alpha"] > 0.05 and _luck(network, "breaks") < 0.5 else math.inf


def epoch_seconds(network):
    training, hidden = _parts(network)
    return hidden["N"] / 500.0 * (1.0 + 16.0 / training["Batch"]) * (0.8 + 0.4 * _luck(network, "seconds"))


def fits(network):
    training, hidden = _parts(network)
    return hidden["N"] < 1024 or training["Batch"] < 256


def checksum(network, epochs):
    return hashlib.sha256(json.dumps([network, epochs], sort_keys=True).encode()).hexdigest()[:16]


def write(path, text):
    """Whole, or not at all."""
    with open(f".{path.replace('/', '-')}.{os.getpid()}", "w") as file:
        file.write(text)
    os.rename(file.name, path)


def examples(network, epochs, count=30):
    """Values of single examples, of which some are held in common by all trainings."""
    luck = [_luck({"Training": {}, "Layers": network["Layers"]}, number) for number in range(count)]
    return [round(value(network, epochs) + one - 0.5, 9) for one in luck]


def write_examples(network, epochs, metric, path):
    with open(path, "w") as file:
        file.write(f"example\t{metric}\n" + "".join(f"{n}\t{one!r}\n" for n, one in enumerate(examples(network, epochs))))


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:16]


def record(words, result=None):
    """run.json: of this program's file and of the data as they are now."""
    os.makedirs("run", exist_ok=True)
    sets = [{"name": "a", "checksum": digest(file)} for option, file in zip(words, words[1:]) if option == "-i"]
    write("run/run.json", json.dumps({"binary": digest(sys.argv[0]), "version": "0", "device": "cpu", "device_name": "none",
                                      "precision": "fp32",
                                      "examples": EXAMPLES, "seed": 1, "sets": sets, "validation_sets": [], "result": result}))


def train(network, until, words):
    """To the end of that epoch, from where it was; the exit code."""
    stopped = []
    record(words)
    signal.signal(signal.SIGUSR1, lambda *_: stopped.append(True))
    only = os.open("only", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(only, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        write("shared", "another trainer is at work here")
    os.makedirs("run", exist_ok=True)
    begun = int(open("epochs").read()) if os.path.exists("epochs") else 0
    with open("run/log.jsonl", "a") as log:
        for epoch in range(begun + 1, until + 1):
            if stopped:
                return 75
            time.sleep(EPOCH_SECONDS)
            if breaks(network) <= epoch:
                return 6
            log.write(json.dumps({"event": "eval", "epoch": epoch, "value": value(network, epoch)}) + "\n")
            log.flush()
            write("epochs", str(epoch))
    write("model.nc", checksum(network, until))
    if "--validation-values" in words:
        write_examples(network, until, words[words.index("--keep-best") + 1], "run/validation_values.tsv")
    record(words, {"checksum": checksum(network, until)})
    return 0


def main(words):
    with open(words[words.index("-c") + 1]) as file:
        network = json.load(file)
    if "--print-recipe" in words:
        print(json.dumps(network))
    elif "--plan" in words:
        print(json.dumps({"plan": {"examples_per_second": EXAMPLES / epoch_seconds(network)},
                          "memory": {"fits": fits(network), "total_bytes": 1}}))
    elif "--last-epoch" in words:
        return train(network, int(words[words.index("--last-epoch") + 1]), words)
    else:
        record(words)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

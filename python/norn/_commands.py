# SPDX-License-Identifier: Apache-2.0
"""The commands of `norn`: what each does, and what does it."""
from __future__ import annotations

import importlib

from ._options import Command
from ._words import did_you_mean

# What is another program, and what a module of this package does.
PROGRAM_OF = {"import": "importer", "train": "trainer", "predict": "predictor", "evaluate": "evaluator", "tune": "tuner", "daily": "daily",
              "report": "report"}
MODULE_OF = {"import": "importing", "export": "exchanging", "convert": "exchanging", "info": "info", "doctor": "doctor",
             "add-items": "adding"}
ABOUT = {
    "import": "make data sets of CSV, Parquet, JSON lines, .npz and other text",
    "train": "train a network, or a recipe that fits the data",
    "predict": "recommend, or score, for the examples of a file",
    "evaluate": "metrics of held-out data",
    "tune": "search the settings of a network",
    "daily": "import, train, compare and publish every day",
    "report": "a page of what a training recorded",
    "export": "write a model as ONNX or safetensors",
    "convert": "a model from another format, or into one",
    "add-items": "give a model items that it has not seen, by their features",
    "info": "what a model or a file of data sets is",
    "doctor": "what works on this machine",
}
EXAMPLES = (
    "norn import ratings.csv --name films --output films.nc --where 'rating >= 4' --split ratio:0.8/0.2",
    "norn train --recipe sigmoid -i films.train.nc -n model.nc",
    "norn evaluate -n model.nc -i films.test.nc",
    "norn info model.nc",
)
OWN_OPTIONS = ("--help", "--version", "--print-completion", "--print-man")


def table_of(command: str) -> Command | None:
    """The options that the command itself has; None of one that is another program."""
    if command not in MODULE_OF:
        return None
    module = importlib.import_module(f"norn.{MODULE_OF[command]}")
    found: Command = module.COMMANDS[command] if hasattr(module, "COMMANDS") else module.COMMAND
    return found


def unknown(word: str) -> str:
    """What is said of a word that is no command."""
    if word.startswith("-"):
        return (f'there is no option "{word}" before a command.{did_you_mean(word, OWN_OPTIONS)} There are: {", ".join(OWN_OPTIONS)}; '
                "norn --help lists the commands")
    near = next((name for name, program in PROGRAM_OF.items() if program == word), "")
    hint = f' Did you mean "{near}"?' if near else ' Did you mean "--version"?' if word == "version" else did_you_mean(word, ABOUT)
    return f'there is no command "{word}".{hint} There are: {", ".join(ABOUT)}'

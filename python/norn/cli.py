# SPDX-License-Identifier: Apache-2.0
"""The program `norn`: one name for all that Norn does."""
from __future__ import annotations

import importlib
import re
import sys

from .errors import Error, UsageError

# What is another program, and what a module of this package does.
_PROGRAM = {"import": "importer", "train": "trainer", "predict": "predictor", "evaluate": "evaluator", "tune": "tuner", "daily": "daily", "report": "report"}
_MODULE = {"import": "importing", "export": "exchanging", "convert": "exchanging", "info": "info", "doctor": "doctor"}
_WHAT = {
    "import": "make data sets of CSV, Parquet, JSON lines, .npz and other text",
    "train": "train a network, or a recipe that fits the data",
    "predict": "recommend, or score, for the examples of a file",
    "evaluate": "metrics of held-out data",
    "tune": "search the settings of a network",
    "daily": "import, train, compare and publish every day",
    "report": "a page of what a training recorded",
    "export": "write a model as ONNX or safetensors",
    "convert": "a model from another format, or into one",
    "info": "what a model or a file of data sets is",
    "doctor": "what works on this machine",
}


def usage() -> str:
    commands = "\n".join(f"  {name:10}{what}" for name, what in _WHAT.items())
    return f"""norn: trains very wide, very sparse networks, and recommends with them.

Usage: norn COMMAND [options]

{commands}

norn COMMAND --help shows what a command takes.

  norn import ratings.csv --name films --output films.nc --where 'rating >= 4' --split ratio:0.8/0.2
  norn train --recipe sigmoid -i films.train.nc -n model.nc
  norn evaluate -n model.nc -i films.test.nc
  norn info model.nc

Exit codes: 0 done, 1 unforeseen, 2 command line or descriptor, 3 data, 4 device or memory, 5 communication, 6 divergence,
75 stopped by a signal after a checkpoint.
"""


def as_options(message: str) -> str:
    """Messages name arguments, `min_features`; here they are options, --min-features."""
    own = {"example": "example-column", "feature": "feature-column", "value": "value-column", "time": "time-column"}
    return re.sub(r"`(\w+)`", lambda found: "--" + own.get(found[1], found[1]).replace("_", "-"), message)


def _run(command: str, arguments: list[str]) -> int:
    if command in _MODULE:
        return int(importlib.import_module(f"norn.{_MODULE[command]}").main(command, arguments))
    if command in _PROGRAM:
        from .programs import run_instead

        run_instead(_PROGRAM[command], arguments)
    from .data.columns import did_you_mean

    near = next((name for name, program in _PROGRAM.items() if program == command), "")
    hint = f' Did you mean "{near}"?' if near else did_you_mean(command, _WHAT)
    raise UsageError(f'there is no command "{command}".{hint} There are: {", ".join(_WHAT)}')


def main(arguments: list[str] | None = None) -> int:
    """The program; its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    command = words[0] if words else "--help"
    if command in ("-h", "--help", "help"):
        if len(words) > 1 and command == "help":
            words, command = [words[1], "--help"], words[1]
        else:
            print(usage(), end="")
            return 0 if words else UsageError.exit_code
    if command == "--version":
        from . import _core

        print(f"norn {_core.version()}")
        return 0
    try:
        return _run(command, words[1:])
    except Error as error:
        print(f"norn: error: {as_options(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1


if __name__ == "__main__":
    sys.exit(main())

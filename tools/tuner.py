#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Searches the settings of a network: trains it with many, and finds the best.

  tuner -c net.json --space space.json -i train.nc --study studies/first --trials 40 --workers 2 -- --validation-split 0.1
  tuner --study studies/first                          # goes on after anything, or to more --trials
  tuner --study studies/first --status
  tuner --study studies/first --best best.json         # the best descriptor so far
  tuner --study studies/first --report                 # a page to look at

docs/user/tuner.md says what a space is, how trials are stopped early, and what is promised."""
import os
import pathlib
import sys

# One thread computes proposals: trials have the machine. Before numpy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
# Source, installed, a wheel
for _folder, _place in ((HERE.parent / "python", 0), (HERE.parent / "share/norn", 0), (HERE.parents[1], len(sys.path))):
    if (_folder / "norn/tune").is_dir():
        sys.path.insert(_place, str(_folder))
        break
from norn._script import called_as  # noqa: E402

try:
    import numpy  # noqa: F401
    import scipy  # noqa: F401
except ImportError as error:
    sys.exit(f"{called_as('tuner')}: error: {error.name} is missing; install it: apt-get install python3-numpy python3-scipy")

from norn.tune.command_line import main  # noqa: E402
from norn.tune.options import parser_of  # noqa: E402


def command_line():
    """What manual pages and completion are made of."""
    return parser_of(__doc__)


if __name__ == "__main__":
    sys.exit(main(__doc__))

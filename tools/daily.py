#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every day and for every region: imports the text, tunes, trains, holds the new model against the one in service, publishes it and
recommends.

  daily --regions regions.json --day 2026-11-22 --slots 4      # goes on after anything; nothing is done twice
  daily --regions regions.json --day 2026-11-22 --status
  daily --regions regions.json --rollback north                # the model before it is in service again
  daily --regions regions.json --export make day               # the same steps for another engine

docs/user/daily.md says what regions.json holds, what each step does, and what is promised."""
import os
import pathlib
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
# Source, installed, a wheel
for _folder, _place in ((HERE.parent / "python", 0), (HERE.parent / "share/norn", 0), (HERE.parents[1], len(sys.path))):
    if (_folder / "norn/daily").is_dir():
        sys.path.insert(_place, str(_folder))
        break

from norn.daily.command_line import main  # noqa: E402
from norn.daily.options import parser_of  # noqa: E402


def command_line():
    """What manual pages and completion are made of."""
    return parser_of(__doc__)


if __name__ == "__main__":
    sys.exit(main(__doc__))

# SPDX-License-Identifier: Apache-2.0
"""The options of the program daily."""
import argparse

from .._script import Parser, as_called, called_as
from ..errors import exit_codes_text
from ..tune.executors.settings import EXECUTORS
from .days import STEPS
from .export import EXPORTS



def _at_least_one(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"\"{text}\" is no whole number of at least 1")
    return int(text)


def parser_of(description: str) -> argparse.ArgumentParser:
    parser = Parser(prog=called_as("daily"), description=as_called("daily", description), epilog=exit_codes_text((0, 1, 2, 3, 5, 7, 75)),
                    allow_abbrev=False,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--regions", metavar="FILE", required=True, help="which regions there are, and what is done for each")
    add("--day", metavar="DAY", help="such as 2026-11-22 [today]")
    add("--only", metavar="REGION", action="append", help="this region alone (repeatable)")
    add("--bin", metavar="FOLDER", help="where the programs are [beside this one, or in PATH]")
    running = parser.add_argument_group("running")
    running.add_argument("--slots", type=_at_least_one, metavar="N", default=1,
                         help="steps at a time on the CPU here, or in the executor's queue, and there so many trials of each search "
                              "[%(default)s]")
    running.add_argument("--gpus", metavar="LIST", help="a step on each of these GPUs instead: 0,1,2,3; 0*5: five share GPU 0")
    running.add_argument("--executor", choices=list(EXECUTORS), default="local", metavar="NAME",
                         help=f"what steps and the searches' trials run on: {', '.join(EXECUTORS)} (docs/user/clusters.md) [%(default)s]")
    running.add_argument("--executor-file", metavar="FILE", help="JSON: its queue, GPUs and memory of a step, and such, as the tuner's")
    running.add_argument("--threads", type=_at_least_one, metavar="N", help="threads of each step [cores / slots]")
    running.add_argument("--from-step", choices=STEPS,
                         help="make this step and those after it again, even where nothing they are made of has changed")
    running.add_argument("--until", choices=STEPS, default=STEPS[-1], help="make no step after this one")
    running.add_argument("-q", "--quiet", action="store_true", help="warnings and errors only")
    look = parser.add_argument_group("instead of running")
    look.add_argument("--status", action="store_true", help="print how far each region is; the exit code is that of a run")
    look.add_argument("--list", action="store_true", help="print each region's name, a tab, and its steps, for programs")
    look.add_argument("--rollback", metavar="REGION",
                      help="the model before it is in service again; what was taken back is not published again")
    look.add_argument("--export", nargs=2, metavar=("KIND", "FOLDER"),
                      help=f"write the day's steps for another engine: {', '.join(EXPORTS)}; with --gpus its jobs ask for a GPU each")
    one = parser.add_argument_group("one step, as engines call it")
    one.add_argument("--step", choices=STEPS, help="make this step of --region and nothing else")
    one.add_argument("--region", metavar="REGION", help="of --step")
    one.add_argument("--go-on", action="store_true", help="end with 0 where the region goes no further: --status tells in the end")
    return parser

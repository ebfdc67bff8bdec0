# SPDX-License-Identifier: Apache-2.0
"""The options of the program tuner."""
import argparse
import math

from .._script import Parser, as_called, called_as
from ..errors import exit_codes_text
from .executors.settings import EXECUTORS
from .export import KINDS
from .finish import SEEDS
from .sampler import SAMPLERS

DEFAULT_TRIALS = 50


def _rungs(text: str) -> list[int]:
    try:
        rungs = [int(part) for part in text.split(",")]
    except ValueError:
        rungs = []
    if not rungs or any(rung < 1 for rung in rungs) or sorted(set(rungs)) != rungs:
        raise argparse.ArgumentTypeError(f"\"{text}\" is no list of rising epochs such as 2,6,18")
    return rungs


def _halving(text: str) -> int:
    if text == "none":
        return 0
    if not text.isdigit() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"\"{text}\" is neither none nor a whole number of at least 2")
    return int(text)


def _at_least(least: int):
    def convert(text: str) -> int:
        if not text.lstrip("-").isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"\"{text}\" is no whole number of at least {least}")
        return int(text)
    return convert


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= SEEDS:
        raise argparse.ArgumentTypeError(f"\"{text}\" is no whole number from 0 to {SEEDS - 1}")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"\"{text}\" is no number above 0")
    return value


def parser_of(description: str) -> argparse.ArgumentParser:
    """Of the words before --; those behind it are the trainer's."""
    parser = Parser(prog=called_as("tuner"), description=as_called("tuner", description), epilog=exit_codes_text((0, 1, 2, 3, 4, 5, 75)),
                    allow_abbrev=False,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    _add_study(parser.add_argument_group("study"))
    _add_search(parser.add_argument_group("search (fixed when the study begins)"))
    _add_budget(parser.add_argument_group("budget (each may be raised later)"))
    _add_running(parser.add_argument_group("running"))
    _add_looks(parser.add_argument_group("instead of running"))
    return parser


def _add_study(group) -> None:
    add = group.add_argument
    add("--study", metavar="FOLDER", help="where everything stands (required, but for --dry-run)")
    add("-c", "--config", metavar="FILE", help="network descriptor that the space changes (needed to begin)")
    add("--space", metavar="FILE", help="which settings are searched, and within what (needed to begin)")
    add("-i", "--input", metavar="FILE", action="append",
        help="data sets of the input layers, as the trainer's (needed to begin; repeatable)")
    add("-o", "--output-data", metavar="FILE", action="append", help="data sets of the output layers (repeatable)")
    add("--epochs", type=_at_least(1), metavar="N", help="passes over the data of a whole trial [the descriptor's]")
    add("--objective", metavar="METRIC",
        help="loss, or a metric with its K [the descriptor's EarlyStop or KeepBest, else ndcg@20]")
    add("--repeat", metavar="STUDY.JSON",
        help="make the search of that study again and compare all that is decided, and the best model's bytes; -i, -o and options behind "
             "-- name data that have moved")
    add("trainer_options", nargs="*", metavar="-- OPTION",
        help="behind --: options for the trainer, such as --validation-split 0.1 --precision bf16")


def _add_search(group) -> None:
    add = group.add_argument
    add("--sampler", choices=SAMPLERS,
        help="gp: a model of the results; random; grid: every point of the space in order; tpe, cmaes: of the Python package optuna [gp]")
    add("--start", type=_at_least(0), metavar="N",
        help="trials that fill the space evenly before the model has a say [10; with --from 0]")
    add("--halving", type=_halving, metavar="N|none", help="at each rung one of N trials goes on [2]")
    add("--rungs", type=_rungs, metavar="N,N,...", help="epochs after which trials are compared [1/15, 1/5 and 3/5 of the epochs]")
    add("--clock", type=_at_least(1), metavar="N",
        help="trials at a time in logical time; the same study on any number of workers [a quarter more than --workers at the beginning, "
             "at least 4]")
    add("--ranks", type=_at_least(1), metavar="N",
        help="of each trial, a GPU or a worker's share of the CPU each, under mpirun or srun [1]")
    add("--seed", type=_seed, metavar="N", help="of the search [1]")
    add("--from", dest="sources", action="append", metavar="FOLDER",
        help="studies whose results this one may know: of other regions, of yesterday (repeatable)")
    add("--machine", metavar="FILE",
        help="description of the machine that trials are planned for: what fits, what an epoch costs [an H200]")


def _add_budget(group) -> None:
    add = group.add_argument
    add("--trials", type=_at_least(1), metavar="N", help=f"proposals [{DEFAULT_TRIALS}, where no other budget is given]")
    add("--epoch-budget", type=_at_least(1), metavar="N", help="epochs of all trials together")
    add("--gpu-hours", type=_positive, metavar="X", help="planned hours of all trials together")
    add("--hours", type=_positive, metavar="X", help="nothing is proposed after so many hours of this call; what runs is finished")
    add("--confirm", type=_at_least(0), metavar="N",
        help="in the end the best N are trained with other seeds, and the best mean wins; 0: none [3]")
    add("--seeds", type=_at_least(1), metavar="N", help="other seeds of each [3]")
    add("--plain", choices=("yes", "no"),
        help="train the descriptor as it is, too, and keep the best trial only where it is better on the held-out examples than chance "
             "would have it [yes; no in studies of earlier versions]")


def _add_running(group) -> None:
    add = group.add_argument
    add("--workers", type=_at_least(1), metavar="N", help="trials at a time: on the CPU here, or in the executor's queue [as before; 1]")
    add("--gpus", metavar="LIST", help="a trial on each of these GPUs instead: 0,1,2,3; 0*5: five share GPU 0 [as before]")
    add("--executor", choices=list(EXECUTORS), metavar="NAME",
        help=f"what trials run on: {', '.join(EXECUTORS)} (docs/user/clusters.md) [as before; local]")
    add("--executor-file", metavar="FILE", help="JSON: its queue, GPUs and memory of a trial, and such")
    add("--threads", type=_at_least(1), metavar="N", help="threads of each trial [cores / workers on the CPU; else the trainer's]")
    add("--known", action="append", metavar="FOLDER|none",
        help="the same trainings that studies in this folder have made are not made again, but taken (repeatable); none: all are made [the "
             "folder that --study stands in]")
    add("--trainer", metavar="FILE", help="the program [beside this one, or in PATH]")
    add("-q", "--quiet", action="store_true", help="warnings and errors only")


def _add_looks(group) -> None:
    add = group.add_argument
    add("--dry-run", action="store_true",
        help="check space, descriptor, data and the space's corners, say what a study would cost, and exit")
    add("--status", action="store_true", help="print all trials and the best, and exit; the study may be running")
    add("--best", metavar="FILE", help="write the best descriptor so far, which trainer --config takes, and exit")
    add("--report", nargs="*", metavar="FOLDER",
        help="make STUDY/report.html, a page to look at, and exit; with folders of other studies one page of all of them")
    add("--page", metavar="FILE", help="where the page of --report goes [report.html in the first study]")
    add("--export", choices=tuple(KINDS),
        help="write all trials to STUDY/export as a table (csv) or for optuna-dashboard (optuna), or into the "
        "trials' runs for TensorBoard (hparams), and exit")

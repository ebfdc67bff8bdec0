#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a page of what trainer --run-dir recorded: curves, network, where a step's time goes, recommendations by name,
settings. One file that needs neither a network nor a server. Several folders are compared.

  report.py runs/first
  report.py runs/first --examples 6 --output first.html
  report.py runs/first runs/second --output comparison.html
"""
import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
# Source, installed, a wheel
for _folder, _place in ((HERE.parent / "python", 0), (HERE.parent / "share/norn", 0), (HERE.parents[1], len(sys.path))):
    if (_folder / "norn/report").is_dir():
        sys.path.insert(_place, str(_folder))
        break
sys.dont_write_bytecode = True

from norn._options import as_options  # noqa: E402
from norn._script import Parser, as_called, called_as, run_script  # noqa: E402
from norn.report.writing import write  # noqa: E402


def command_line():
    parser = Parser(prog=called_as("report.py"), description=as_called("report.py", __doc__),
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="of trainer --run-dir")
    parser.add_argument("--output", dest="path", metavar="FILE", help="where the page goes [report.html in the first folder]")
    parser.add_argument("--title", metavar="TEXT", help="of the page [the folder's name]")
    group = parser.add_argument_group("recommendations and classes by name, made by the program predictor")
    group.add_argument("--examples", type=int, default=0, metavar="N",
                       help="so many examples of the run's data; of images so many that are taken for another class [0]")
    group.add_argument("--features", metavar="FILE", help="feature index of the output, for models without labels: label<TAB>number")
    group.add_argument("--input-features", metavar="FILE", help="of the input [that of the output]")
    group.add_argument("--requests", metavar="FILE", help="take the examples from this text: example<TAB>feature:feature:...")
    group.add_argument("--data", metavar="FILE", help="take them from these data sets")
    group.add_argument("--model", metavar="FILE", help="[the run's]")
    group.add_argument("--top", type=int, default=8, metavar="K", help="units for each example [8]")
    group.add_argument("--predictor", metavar="FILE", help="the program [of norn, or in PATH]")
    return parser


def main():
    print(write(**vars(command_line().parse_args())))
    return 0


if __name__ == "__main__":
    sys.exit(run_script("report.py", main, as_options))

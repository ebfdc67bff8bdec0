#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a page of what trainer --run-dir recorded: curves, network, where a step's time goes, recommendations by name,
settings. One file that needs neither a network nor a server. Several folders are compared.

  report.py runs/first
  report.py runs/first --examples 6 --output first.html
  report.py runs/first runs/second --output comparison.html
"""
import argparse
import os
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
for _folder, _place in ((HERE.parent / "python", 0), (HERE.parent / "share/norn", 0), (HERE.parents[1], len(sys.path))):  # source, installed, a wheel
    if (_folder / "norn/report").is_dir():
        sys.path.insert(_place, str(_folder))
        break
sys.dont_write_bytecode = True

from norn.report.examples import recommendations  # noqa: E402
from norn.report.page import make_page  # noqa: E402
from norn.report.runs import ReportError, Run  # noqa: E402
from norn._script import Parser, as_called, called_as, run_script  # noqa: E402


def default_predictor():
    beside = HERE / "predictor"
    return beside if beside.exists() else shutil.which("predictor") or HERE.parent / "build/cpu/bin/predictor"


def command_line():
    parser = Parser(prog=called_as("report.py"), description=as_called("report.py", __doc__), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="of trainer --run-dir")
    parser.add_argument("--output", metavar="FILE", help="where the page goes [report.html in the first folder]")
    parser.add_argument("--title", metavar="TEXT", help="of the page [the folder's name]")
    group = parser.add_argument_group("recommendations by name, made by the program predictor")
    group.add_argument("--examples", type=int, default=0, metavar="N", help="so many examples of the run's data [0]")
    group.add_argument("--features", metavar="FILE", help="feature index of the output, for models without labels: label<TAB>number")
    group.add_argument("--input-features", metavar="FILE", help="of the input [that of the output]")
    group.add_argument("--requests", metavar="FILE", help="take the examples from this text: example<TAB>feature:feature:...")
    group.add_argument("--model", metavar="FILE", help="[the run's]")
    group.add_argument("--top", type=int, default=8, metavar="K", help="units for each example [8]")
    group.add_argument("--predictor", default=default_predictor(), metavar="FILE", help="the program [beside this one, or in PATH]")
    return parser


def names_of(folders):
    """The last parts of the paths, or as much of them as tells them apart."""
    paths = [pathlib.Path(folder).resolve() for folder in folders]
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    raise ReportError("the same folder is given twice")


def write_whole(path, text):
    """Beside its place, then renamed: a reader never sees half a page."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8", errors="replace")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ReportError(f"{path}: cannot be written: {error.strerror}; give another --output") from error


def main():
    parser = command_line()
    wish = parser.parse_args()
    if wish.examples < 0 or wish.top < 1:
        parser.error("--examples must be at least 0 and --top at least 1")
    if wish.examples and len(wish.folders) > 1:
        parser.error("--examples is for the report of one run")
    try:
        runs = [Run(folder, name) for folder, name in zip(wish.folders, names_of(wish.folders))]
        examples = recommendations(runs[0], wish) if wish.examples else []
        title = wish.title or (runs[0].name if len(runs) == 1 else f"{len(runs)} runs compared")
        output = pathlib.Path(wish.output or pathlib.Path(wish.folders[0]) / "report.html")
        write_whole(output, make_page(runs, title, examples))
    except ReportError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 3
    print(output)
    return 0


if __name__ == "__main__":
    sys.exit(run_script("report.py", main))

# SPDX-License-Identifier: Apache-2.0
"""`norn import`: what the program importer reads is its affair, everything else is read by norn.Dataset."""
from __future__ import annotations

import argparse
import contextlib
import logging
import os
import pathlib
import sys
import time
from collections.abc import Generator
from typing import Any

from ._options import Command, Option, Parser, as_options
from .errors import UsageError
from .programs import run_instead

# Those of importer that go with every input.
_SHARED: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("--input", "-i"), {}), (("--output", "-o"), {}), (("--name", "-d"), {}), (("--features", "-f"), {}),
    (("--format",), {"default": "auto"}),
    (("--type", "-t"), {"default": "auto", "choices": ("auto", "indicator", "analog")}),
    (("--target-type",), {"default": "indicator", "choices": ("indicator", "analog")}), (("--header",), {"default": "auto"}),
    (("--example-column",), {}),
    (("--feature-column",), {}), (("--value-column",), {}), (("--time-column",), {}), (("--skip-malformed",), {"type": int, "default": 0}),
    (("--duplicates",), {"default": "error"}), (("--empty-rows",), {"default": "error"}), (("--split",), {}),
    (("--split-by",), {"default": "entry"}),
    (("--seed",), {"type": int, "default": 1}), (("--quiet", "-q"), {"action": "store_true"}))

COMMAND = Command(
    "makes files of data sets (NetCDF) from tables and images", "FILE --output FILE.nc [options]",
    about=("FILE comes first or last, or is named by --input FILE, which is the same. Beside the text that importer reads it is Parquet, "
           "Arrow and Feather, JSON lines (a pair a line, or an example with the list of its features), SciPy's .npz, columns with any "
           "separator, RecBole's .inter, MovieLens' files, or any of these texts packed by bz2, xz or zstd. The same rows make the same "
           "bytes, whatever they come in. With --format images importer reads images.",
           "With text that importer reads go all of its options, which stand below. With other files, and beside the options that stand "
           f"here, go of those {', '.join(names[0] for names, _ in _SHARED)}."),
    options=(Option(("--where",), "FILTER",
                    "only rows of which it holds: 'rating >= 4', 'event in (buy, \"add to cart\") and day < 2026-02-01'; of several "
                    "all must hold", repeatable=True, section="Rows"),
             Option(("--min-features",), "N", "leave out examples with fewer features", default="1", section="Rows"),
             Option(("--min-examples",), "N", "and features of fewer examples, until none is left to leave out", default="1",
                    section="Rows"),
             Option(("--separator",), "TEXT", "between columns: ; :: | tab [by the file]", section="Rows")),
    files="file", examples=(("Ratings of at least 4, a fifth of each user's held out",
                             "ratings.csv --name films --output films.nc --where 'rating >= 4' --split ratio:0.8/0.2"),))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="norn import", add_help=False, allow_abbrev=False)
    for names, how in _SHARED:
        parser.add_argument(*names, **how)
    COMMAND.add_to(parser)
    return parser


def _asks_for_more(wish: argparse.Namespace) -> bool:
    """Whether there is an option that importer does not have."""
    return bool(wish.where or wish.min_features != 1 or wish.min_examples != 1 or wish.separator)


def _is_importers(wish: argparse.Namespace) -> bool:
    from .data.packed import is_packed
    from .data.sources import IMPORTER_FORMATS, Wanted, format_of, is_importers
    from .data.splits import by_time

    path = pathlib.Path(wish.input)
    if wish.format == "images":
        return True
    if _asks_for_more(wish):
        return False
    if not path.exists():
        return True
    if is_packed(path):
        return False
    times = wish.split is not None and by_time(wish.split)
    wanted = Wanted(wish.example_column, wish.feature_column, wish.value_column, wish.time_column if times else None, needs_time=times,
                    format=wish.format,
                    header=wish.header)
    kind = format_of(path, wish.format)
    return kind == "text" or wish.format in IMPORTER_FORMATS or is_importers(path, wanted)


class _Said(logging.Handler):
    """Warnings as a program says them."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"norn: warning: {as_options(record.getMessage())}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _warnings_said() -> Generator[None, None, None]:
    log, handler = logging.getLogger("norn"), _Said(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _with_named_input(arguments: list[str]) -> list[str]:
    """FILE stands first, or last behind the value of an option."""
    values = [not word.startswith("-") for word in arguments]
    if values[:1] == [True]:
        return ["--input", *arguments]
    if values[-2:] == [True, True] and not any(word.split("=")[0] in ("--input", "-i") for word in arguments):
        return ["--input", arguments[-1], *arguments[:-1]]
    return arguments


def main(_command: str, arguments: list[str]) -> int:
    arguments = _with_named_input(arguments)
    wish, others = _parser().parse_known_args(arguments)
    with _warnings_said():
        return _do(wish, others, arguments)


def _do(wish: argparse.Namespace, others: list[str], arguments: list[str]) -> int:
    if wish.input is None or _is_importers(wish):
        run_instead("importer", arguments, "import")
    if others:
        raise UsageError(f"{others[0]} does not go with {'this input' if not _asks_for_more(wish) else 'filters, cores and separators'}, "
                         "which importer does not read; norn import --help lists what does")
    return _import(wish)


def _column(wish: argparse.Namespace) -> str | None:
    """Values are dropped unless --type says that there are any, as importer has it."""
    if wish.type != "analog":
        return None
    return wish.value_column or "3"


def _import(wish: argparse.Namespace) -> int:
    from . import _core
    from .data.labels import from_text, to_text
    from .dataset import Dataset

    started = time.monotonic()
    if not wish.output:
        raise UsageError("--output is required; norn import --help shows how")
    given = from_text(_core.read_label_index(wish.features)) if wish.features and os.path.exists(wish.features) else None
    data = Dataset.from_table(
        wish.input, wish.example_column, wish.feature_column, _column(wish), time=wish.time_column, where=wish.where,
        min_features=wish.min_features,
        min_examples=wish.min_examples, duplicates=wish.duplicates, features=given, split=wish.split, split_by=wish.split_by,
        seed=wish.seed,
        name=wish.name or pathlib.Path(wish.output).stem, format=wish.format, separator=wish.separator, header=wish.header,
        skip_malformed=wish.skip_malformed, empty_rows=wish.empty_rows)
    files = data.to_netcdf(wish.output, target_values=wish.target_type == "analog")
    if wish.features and given is None:
        if data.feature_labels is None:
            raise UsageError(f"--features {wish.features}: the features of a matrix are numbers; leave it out")
        _core.write_label_index(wish.features, to_text(data.feature_labels, "feature", wish.input))
    if not wish.quiet:
        parts = [data] if wish.split is None else list(data.parts.values())
        for file, part in zip(files, parts):
            targets = part.entries if part.targets is None else int(part.targets.nnz)
            print(f"{file}: {len(part):,} examples, {part.entries:,} input and {targets:,} target entries")
        print(f"width: {data.shape[1]:,}")
        if data.left_out:
            print(f"{data.left_out:,} entries dropped: their features are not in the given index")
        print(f"{data.entries:,} entries read and written in {time.monotonic() - started:.1f} s", file=sys.stdout)
    return 0

# SPDX-License-Identifier: Apache-2.0
"""`norn add-items`: a model with items that it has not seen, by Recommender.add_items."""
from __future__ import annotations

import argparse
import pathlib
from typing import TYPE_CHECKING

from ._options import Command, Option
from .errors import UsageError

if TYPE_CHECKING:
    from .dataset import Dataset

COMMAND = Command(
    "gives a model items that it has not seen", "MODEL.nc NEW.nc --item-features FILE [options]",
    about=("Weights of the new items follow from their features as those of the known items do from theirs, without training "
           "(docs/user/item_features.md). FILE has a row for each item, with its features: a data set of `norn import`, or "
           "what that reads.",),
    options=(Option(("--item-features",), "FILE", "of the new items, with their labels"),
             Option(("--known-features",), "FILE", "of the items that the model has [those that it was trained with]"),
             Option(("--header",), "auto|yes|no", "whether text of these begins with a line of names, as in `norn import`",
                    words=("auto", "yes", "no"), default="auto"),
             Option(("--regularization",), "X", "of the ridge regression, above 0", default="3"),
             Option(("--layer",), "NAME", "which output layer, of several"),
             Option(("--force",), "", "replace a file that is there")),
    files="file", examples=(("Of a model that was trained with features", "films.nc more.nc --item-features new.csv"),))


def _read(file: str, header: str) -> Dataset:
    from .dataset import Dataset

    return Dataset.from_netcdf(file) if pathlib.PurePath(file).suffix == ".nc" else Dataset.from_table(file, header=header)


def main(command: str, arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog=f"norn {command}", add_help=False, exit_on_error=False, allow_abbrev=False)
    COMMAND.add_to(parser)
    try:
        given, files = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise UsageError(str(error)) from None
    wrong = [word for word in files if word.startswith("-")]
    if wrong:
        raise UsageError(f"{wrong[0]}: there is no such option; norn {command} --help lists them")
    if len(files) != 2:
        raise UsageError(f"{len(files)} files are given, expected two: the model, and what is written; norn {command} --help shows how")
    if given.item_features is None:
        raise UsageError("--item-features is missing: a file with the features of the new items")
    if pathlib.Path(files[1]).resolve() == pathlib.Path(files[0]).resolve():
        raise UsageError(f"{files[1]}: is the model that is read; give another name for what is written")
    if pathlib.Path(files[1]).exists() and not given.force:
        raise UsageError(f"{files[1]}: is there already; give another name, or --force")
    try:
        regularization = float(given.regularization)
    except ValueError:
        raise UsageError(f"--regularization {given.regularization}: expected a number above 0") from None
    from .recommender import Recommender

    model = Recommender.load(files[0], device="cpu")
    header = given.header or "auto"
    known = None if given.known_features is None else _read(given.known_features, header)
    model.add_items(_read(given.item_features, header), known_features=known, regularization=regularization, layer=given.layer or "")
    model.save(files[1])
    return 0

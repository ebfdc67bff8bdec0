# SPDX-License-Identifier: Apache-2.0
"""What recipe_search.py, recipe_sets.py and recipes_table.py share: data of the recipes, and runs of the programs on them."""
import gzip
import json
import lzma
import os
import pathlib
import random
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPES = ROOT / "configs/recipes"
SETS = pathlib.Path(os.environ.get("NORN_RECIPE_SETS", ROOT / "build/recipe_sets"))  # that recipe_sets.py made
TOP = 20


class ProgramFailed(SystemExit):
    """Ends a script with what went wrong, unless that catches it."""


def opened(path):
    """The text of a file, or of path.gz or path.xz; None where there is none of them."""
    return next((opener(found, "rt", encoding="utf-8") for ending, opener in (("", open), (".gz", gzip.open), (".xz", lzma.open))
                 if (found := path.with_name(path.name + ending)).exists()), None)


class Data:
    """A folder of train.txt and test.txt (or .gz, .xz): `example<TAB>feature:feature:...`, an example a line."""

    def __init__(self, name, datasets, folder, hint=""):
        self.name, self.datasets, self.folder, self.hint = name, datasets, pathlib.Path(folder), hint

    def is_there(self):
        return any(self.folder.glob("train.txt*"))

    def lines(self, part):
        text = opened(self.folder / f"{part}.txt")
        if text:
            with text:
                return [line.rstrip("\n") for line in text if line.strip()]
        sys.exit(f"there is no {self.folder / part}.txt, .txt.gz or .txt.xz.{self.hint}")


def known_data():
    """By the name that begins the names of their recipes."""
    gowalla = os.environ.get("NORN_GOWALLA", ROOT / "build/gowalla")
    made = sorted(folder for folder in SETS.glob("*") if folder.is_dir())
    return {data.name: data for data in (
        *(Data(folder.name, folder.name, folder) for folder in made),
        Data("debian_packages", "packages", ROOT / "tests/data/debian_packages"),
        Data("gowalla", "gowalla", gowalla, "\nThe gowalla data are not part of the repository; name their folder with "
             "NORN_GOWALLA=FOLDER or --folder gowalla=FOLDER."))}


def data_of(recipe, data):
    """The data that a recipe's file name begins with, or None."""
    return next((found for name, found in data.items() if recipe.stem.startswith(name)), None)


def read_network(path):
    """A descriptor, which may have // comments after its values."""
    network = json.loads(re.sub(r"(?m)(^|[\s,])//.*$", r"\1", path.read_text(encoding="utf-8")))
    network.pop("$schema", None)  # a path from the original's folder
    return network


def network_of(programs, recipe, train_file):
    """The descriptor of a file, or what the trainer's recipe of that name makes for the data."""
    if pathlib.Path(recipe).suffix == ".json":
        return read_network(pathlib.Path(recipe))
    return json.loads(programs.run("trainer", "--recipe", recipe, "-i", train_file, "--print-recipe"))


class Programs:
    def __init__(self, folder, device=None, threads=None, precision=None):
        built = (ROOT / "build/cuda/bin", ROOT / "build/cpu/bin")
        self.folder = folder or next((p for p in built if (p / "importer").exists()), built[-1])
        self.options = []
        for name, value in (("--device", device), ("--threads", threads), ("--precision", precision)):
            self.options += [name, str(value)] if value else []
        for name in ("importer", "trainer", "evaluator"):
            if not (self.folder / name).exists():
                sys.exit(f"there is no {self.folder / name}; build it, or say --bin FOLDER")

    def run(self, name, *options):
        """Its stdout; what it says on stderr is shown when it fails."""
        extra = self.options if name != "importer" else []
        done = subprocess.run([str(self.folder / name), *map(str, options), *extra, "--quiet"], capture_output=True, text=True)
        if done.returncode != 0:
            raise ProgramFailed(f"{name} failed:\n{done.stderr[-2000:]}")
        return done.stdout

    def import_parts(self, datasets, out, kept, held_out):
        """(training file, evaluation file); the index of features knows both parts."""
        out.mkdir(parents=True, exist_ok=True)
        write_parts(out, kept, held_out)
        features = ["--features", out / "features.txt", "--name", datasets]
        (out / "features.txt").unlink(missing_ok=True)
        self.run("importer", "--input", out / "kept.txt", "--target", out / "held_out.txt", "--output", out / "eval.nc",
                 *features)
        self.run("importer", "--input", out / "kept.txt", "--output", out / "train.nc", *features)
        return out / "train.nc", out / "eval.nc"

    def train(self, folder, network, train_file, *options):
        """(model, seconds) of a network that is a dict; its descriptor and model go to the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.nc"):
            old.unlink()
        config, model = folder / "network.json", folder / "model.nc"
        config.write_text(json.dumps(network, indent=2) + "\n", encoding="utf-8")
        started = time.monotonic()
        self.run("trainer", "-c", config, "-i", train_file, "-o", train_file, "-n", model, "--force", *options)
        return model, time.monotonic() - started

    def metrics(self, model, data):
        """(Recall, NDCG) of the first TOP, what the example's input holds left out."""
        report = json.loads(self.run("evaluator", "--model", model, "--data", data, "--top", TOP, "--format", "json"))
        return report["model"][0]["Recall"], report["model"][0]["NDCG"]


def write_parts(folder, kept, held_out):
    for name, lines in (("kept.txt", kept), ("held_out.txt", held_out)):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def hold_out(lines, share, seed):
    """Every example's line in two: about `share` of the features, at least one, are held out, at least one is kept."""
    chooser = random.Random(seed)
    kept, held_out = [], []
    for line in lines:
        example, _, words = line.partition("\t")
        features = words.split(":")
        chooser.shuffle(features)
        count = min(len(features) - 1, max(1, int(len(features) * share + chooser.random())))
        if count > 0:
            kept.append(f"{example}\t{':'.join(features[count:])}")
            held_out.append(f"{example}\t{':'.join(features[:count])}")
    return kept, held_out


def add_folder_option(parser):
    parser.add_argument("--folder", action="append", default=[], metavar="DATA=FOLDER",
                        help="where data are: debian_packages=..., gowalla=... [the repository's; NORN_GOWALLA]")


def add_common_options(parser):
    add_folder_option(parser)
    add_program_options(parser)


def add_program_options(parser):
    parser.add_argument("--bin", type=pathlib.Path, help="folder of the programs [build/cuda/bin or build/cpu/bin]")
    parser.add_argument("--device", help="passed to trainer and evaluator")
    parser.add_argument("--precision", help="passed to trainer and evaluator")
    parser.add_argument("--threads", type=int, help="passed to trainer and evaluator")


def data_from(args):
    """Data by name."""
    data = known_data()
    for given in args.folder:
        name, _, folder = given.partition("=")
        if name not in data:
            sys.exit(f"--folder {given}: there are no data {name}; known: {', '.join(data)}")
        data[name].folder = pathlib.Path(folder)
    return data


def from_options(args):
    """(programs, data by name)."""
    data = data_from(args)
    return Programs(args.bin, args.device, args.threads, args.precision), data

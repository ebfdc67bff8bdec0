#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/get_movielens.sh with a server of our own that has a small file of the same layout; then the commands it prints."""
import csv
import functools
import hashlib
import http.server
import io
import os
import re
import subprocess
import threading
import unittest
import zipfile

import netCDF4

from programs import BIN, SOURCE, ProgramTest

SCRIPT = SOURCE / "tools/get_movielens.sh"
USERS, FILMS, GENRES = 150, 60, 5


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


def rows_of(path, number):
    """What every example of a file's data set holds."""
    with netCDF4.Dataset(path) as file:
        begin, end = file[f"sparseStart{number}"][:], file[f"sparseEnd{number}"][:]
        units = file[f"sparseIndex{number}"][:]
        return [set(map(int, units[b:e])) for b, e in zip(begin, end)]


class MovieLensTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.ratings = []
        for user in range(1, USERS + 1):
            genre = user % GENRES
            liked = [f for f in range(1, FILMS + 1) if f % GENRES == genre]
            films = set(self.random.sample(liked, 10)) | {self.random.randint(1, FILMS) for _ in range(2)}
            for film in sorted(films):
                self.ratings.append((user, film * 10, self.random.choice([2.5, 3.0, 4.0, 4.5]), 1112486027))
        served = self.path("served")
        served.mkdir()
        with zipfile.ZipFile(served / "ml-20m.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("ml-20m/ratings.csv", self.table(["userId", "movieId", "rating", "timestamp"], self.ratings))
            films = [(f * 10, f"Film {f}, The (1999)", "Comedy|Drama") for f in range(1, FILMS + 1)]
            archive.writestr("ml-20m/movies.csv", self.table(["movieId", "title", "genres"], films))
        handler = functools.partial(Quiet, directory=str(served))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.archive = served / "ml-20m.zip"
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    @staticmethod
    def table(names, rows):
        text = io.StringIO()
        csv.writer(text, lineterminator="\r\n").writerows([names, *rows])
        return text.getvalue()

    def get(self, *arguments, url=None, md5=None, **more):
        environment = {**os.environ, "NORN_MOVIELENS_URL": url or self.url, "no_proxy": "127.0.0.1",
                       "NORN_MOVIELENS_MD5": md5 or hashlib.md5(self.archive.read_bytes()).hexdigest()}
        return subprocess.run([str(SCRIPT), "--folder", str(self.path("ml")), "--bin", str(BIN), *arguments],
                              env=environment, capture_output=True, text=True, timeout=120, **more)

    def check_split(self, entries):
        train, test = self.path("ml/ml20m.train.nc"), self.path("ml/ml20m.test.nc")
        known, found = rows_of(train, 0), rows_of(test, 1)
        self.assertEqual(rows_of(train, 1), known)  # the input is its own target
        self.assertEqual(sum(map(len, known)) + sum(map(len, found)), entries)
        # What is to be found belongs to the same inputs, but for users of whom nothing is.
        inputs = rows_of(test, 0)
        self.assertEqual(len(inputs), len(found))
        rest = iter(known)
        self.assertTrue(all(row in rest for row in inputs))
        for a, b in zip(inputs, found):
            self.assertFalse(a & b)
            self.assertTrue(a and b)
        self.assertAlmostEqual(sum(map(len, found)) / entries, 0.2, delta=0.03)

    def test_from_download_to_precision(self):
        done = self.get()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"downloading {self.url}/ml-20m.zip", done.stdout)
        self.check_split(len(self.ratings))
        titles = self.path("ml/titles.tsv").read_text(encoding="utf-8").splitlines()
        self.assertEqual(titles[0], "10\tFilm 1, The (1999)")
        self.assertEqual(len(titles), FILMS)
        commands = [line for line in done.stdout.splitlines() if line.startswith(str(BIN))]
        self.assertEqual(len(commands), 2)
        # This data is small: more, smaller steps.
        subprocess.run(commands[0] + " -q --batch 16 --epochs 30", shell=True, check=True, capture_output=True)
        table = subprocess.run(commands[1], shell=True, check=True, capture_output=True, text=True).stdout
        precision = {name: float(re.search(rf"^{name} +10 +[\d.]+ +([\d.]+)", table, re.M).group(1))
                     for name in ("model", "popularity")}
        self.assertGreater(precision["model"], 1.5 * precision["popularity"])

    def test_a_file_that_is_here_is_not_fetched_again(self):
        self.assertEqual(self.get().returncode, 0)
        first = rows_of(self.path("ml/ml20m.train.nc"), 0)
        self.server.shutdown()
        again = self.get("--seed", "1", url="http://127.0.0.1:9")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("is here already", again.stdout)
        self.assertEqual(rows_of(self.path("ml/ml20m.train.nc"), 0), first)  # the same seed, the same split
        self.assertEqual(self.get("--seed", "2", url="http://127.0.0.1:9").returncode, 0)
        self.assertNotEqual(rows_of(self.path("ml/ml20m.train.nc"), 0), first)

    def test_only_good_ratings(self):
        done = self.get("--min-rating", "4")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_split(sum(rating >= 4 for _, _, rating, _ in self.ratings))

    def test_downloads_that_fail(self):
        done = self.get(md5="0" * 32)
        self.assertEqual(done.returncode, 1)
        self.assertIn("its MD5 is not 00000000000000000000000000000000", done.stderr)
        self.assertFalse(self.path("ml/ml-20m.zip").exists())
        done = self.get(url=self.url + "/none")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/none/ml-20m.zip cannot be read; without a network, put the file to", done.stderr)

    def test_wrong_options(self):
        for arguments, message in ((("--min-rating", "many"), "'many' is no rating"), (("--seed",), "value is missing"),
                                   (("--sead", "1"), "unknown option '--sead'")):
            done = self.get(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(message, done.stderr)
        done = subprocess.run([str(SCRIPT), "--bin", str(self.path("nowhere"))], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("importer is not there", done.stderr)


if __name__ == "__main__":
    unittest.main()

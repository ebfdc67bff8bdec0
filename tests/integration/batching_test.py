# SPDX-License-Identifier: Apache-2.0
"""What the predictor says of an example, to the last digit, in any company: other requests, in another order, in batches of any
size, for any number of units, on any number of threads and ranks, with the kernels that OpenBLAS has for any processor.
`--batchings N` makes N settings of each network (CI: a few); --device cuda --precision P on a GPU."""
import os
import sys
import unittest

from norn_files import write_datasets, write_index, write_text
from programs import ODD_NETWORK, WIDE_NETWORK, ProgramTest, mpirun, random_rows

BATCHINGS = 4
DEVICE = []
CORES = [None, "Haswell", "SkylakeX"]
PREDICTOR = ("-n", "model.nc", "-i", "features.txt", "-p", ".9g", "-q")


class AnyBatch(ProgramTest):
    def setUp(self):
        super().setUp()
        self.width = 1003
        self.names = [f"item{u}" for u in range(self.width)]
        self.rows = random_rows(self.random, 150, self.width)
        self.examples = [f"example{e}" for e in range(len(self.rows))]
        write_datasets(self.path("train.nc"), [("gl_input", self.width, self.rows, None),
                                               ("gl_output", self.width, self.rows, None)])
        write_index(self.path("features.txt"), self.names)

    def lines(self, chosen, *arguments, ranks=1, core=None):
        """The predictor's line of each example that was chosen, in that order."""
        write_text(self.path("some.txt"), [self.rows[e] for e in chosen], self.names, [self.examples[e] for e in chosen])
        environment = {key: value for key, value in os.environ.items() if key != "OPENBLAS_CORETYPE"}
        if core:
            environment["OPENBLAS_CORETYPE"] = core
        self.succeed("predictor", *PREDICTOR, "-r", "some.txt", "-s", "lines.txt", *DEVICE, *arguments, env=environment,
                     prefix=mpirun(ranks) if ranks > 1 else ())
        lines = self.read("lines.txt").decode().splitlines()
        self.assertEqual([line.split("\t")[0] for line in lines], [self.examples[e] for e in chosen])
        return lines

    def setting(self):
        return {"--batch": self.random.choice([1, 2, 3, 5, self.random.randint(6, 64), self.random.randint(65, 1024)]),
                "--threads": self.random.randint(1, 4)}

    def check(self, network, what=("-o", "features.txt")):
        """Every example by itself says what it has to say; random settings must repeat it."""
        self.write("net.json", network)
        self.train("-e", "3")
        everyone = range(len(self.rows))
        alone = self.lines(everyone, "-k", self.width, *what, "--batch", "1", "--threads", "1")
        for _ in range(BATCHINGS):
            chosen = self.random.sample(everyone, self.random.randint(1, len(self.rows)))
            setting = self.setting()
            ranks = self.random.randint(1, 3) if mpirun(1) else 1
            core = self.random.choice(CORES)
            k = self.random.choice([1, 10, 100, self.width])
            with self.subTest(setting=setting, ranks=ranks, core=core, k=k, examples=len(chosen)):
                words = [str(word) for pair in setting.items() for word in pair]
                got = self.lines(chosen, "-k", k, *what, *words, ranks=ranks, core=core)
                for e, line in zip(chosen, got):
                    best = alone[e] if "--layer" in what else ":".join(alone[e].split(":")[:k]) + ":"
                    self.assertEqual(line, best)

    def test_of_two_hidden_layers_and_probabilities(self):
        self.check(ODD_NETWORK % ("Relu", "SoftMax"))

    def test_of_two_hidden_layers_and_sigmoids(self):
        self.check(ODD_NETWORK % ("Sigmoid", "Sigmoid"))

    def test_of_sums_over_sources(self):
        self.check(WIDE_NETWORK)

    def test_of_embeddings(self):
        self.check(ODD_NETWORK % ("Tanh", "SoftMax"), ("--layer", "Second"))


if __name__ == "__main__":
    if "--batchings" in sys.argv:
        at = sys.argv.index("--batchings")
        BATCHINGS = int(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    for option in ("--device", "--precision"):
        if option in sys.argv:
            at = sys.argv.index(option)
            DEVICE += sys.argv[at:at + 2]
            del sys.argv[at:at + 2]
    unittest.main()

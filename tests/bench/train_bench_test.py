#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""train_bench on small networks: it finds the costs right, whatever the loss, and says what it measured."""
import itertools
import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("NORN_BIN", "build/cpu/bin")).resolve() / "train_bench"
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}
LOSSES = ("L1", "L2", "Huber", "L2Hinge", "Hinge", "CrossEntropy", "ScaledMarginalCrossEntropy",
          "DataScaledMarginalCrossEntropy")
OUTPUTS = ("Sigmoid", "SoftMax", "Linear")


def network(loss, output, units, batch, **keys):
    layers = [{"Name": "Input", "Kind": "Input", "N": units, "DataSet": "data", "Sparse": True},
              {"Name": "Hidden", "Kind": "Hidden", "N": 9, "Activation": "Tanh"},
              {"Name": "Output", "Kind": "Output", "N": units, "DataSet": "data", "Activation": output}]
    return {"ErrorFunction": loss, "Layers": layers, **keys,
            "Training": {"Optimizer": "SGD", "Alpha": 0.05, "Batch": batch, "Lambda": 0, "Lambda1": 0}}


class TrainBench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.seed = random.SystemRandom().randrange(1 << 32)
        self.random = random.Random(self.seed)

    def run_bench(self, descriptor, *options, ranks=1):
        """(completed process, what --json says) of a few steps."""
        config = ["--config", "net.json"] if descriptor else []
        (self.folder / "net.json").write_text(json.dumps(descriptor), encoding="utf-8")
        (self.folder / "said.json").unlink(missing_ok=True)
        launcher = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks)] if ranks > 1 else []
        done = subprocess.run([*launcher, PROGRAM, *config, "--device", "cpu", "--batches", "3",
                               "--seconds", "0.05", "--no-stages", "--json", "said.json", *options],
                              cwd=self.folder, env=os.environ | MPI, capture_output=True, text=True, check=False,
                              timeout=120)
        said = self.folder / "said.json"
        return done, json.loads(said.read_text(encoding="utf-8")) if said.exists() else None

    def expect_right(self, descriptor, *options, ranks=1):
        done, said = self.run_bench(descriptor, *options, ranks=ranks)
        words = f"seed {self.seed}, {json.dumps(descriptor)}: {done.stdout}{done.stderr}"
        self.assertEqual(done.returncode, 0, words)
        self.assertNotIn("WRONG", done.stdout, words)
        return done, said

    def sizes(self):
        return {"units": self.random.randrange(20, 3000), "batch": self.random.choice((2, 3, 5, 16, 31))}

    def test_finds_the_cost_of_factored_outputs_right(self):
        for batch in (2, 5, 31):  # narrow and wide for 9 hidden units
            net = network("L2", "Linear", self.random.randrange(20, 3000), batch)
            done, _ = self.expect_right(net, "--factored")
            self.assertRegex(done.stdout, "folded at every [0-9]+ steps")

    def test_finds_the_cost_of_every_loss_and_output_right(self):
        for loss, output in itertools.product(LOSSES, OUTPUTS):
            if output == "Linear" and "CrossEntropy" in loss:
                continue  # logarithms of what is no probability
            for weight in ("InverseCount", "One") if output == "SoftMax" else ("One",):
                with self.subTest(loss=loss, output=output, weight=weight):
                    self.expect_right(network(loss, output, TargetWeight=weight, **self.sizes()))

    def test_takes_the_targets_weights_that_a_network_has_unless_told(self):
        sizes = self.sizes()
        costs = {}
        for key in ({}, {"TargetWeight": "InverseCount"}, {"TargetWeight": "One"}):
            done, _ = self.expect_right(network("CrossEntropy", "SoftMax", **sizes, **key), "--per-example", "7")
            costs[str(key)] = float(done.stdout.split("first cost ")[1].split()[0])
        unless_told, inverse, one = costs.values()
        self.assertEqual(unless_told, inverse, f"seed {self.seed}")
        self.assertAlmostEqual(one / inverse, 7.0, 1, f"seed {self.seed}")

    def test_margins_and_scales_count(self):
        margins = {"ScaledMarginalCrossEntropy": {"oneTarget": 0.8, "zeroTarget": 0.3, "oneScale": 2.0, "zeroScale": 0.5}}
        for output in ("Sigmoid", "SoftMax"):
            self.expect_right(network("ScaledMarginalCrossEntropy", output, **self.sizes(), **margins))

    def test_knows_inputs_that_are_weighted_and_normalised(self):
        descriptor = network("CrossEntropy", "SoftMax", **self.sizes(), Denoising={"p": 0.3})
        descriptor["Layers"][0]["InputWeighting"] = {"Scheme": "InverseDocumentFrequency"}
        descriptor["Layers"][0]["Normalize"] = "L2"
        descriptor["Layers"][1] |= {"BatchNormalization": True, "pDropout": 0.1}
        descriptor["Training"] |= {"Optimizer": "Adam", "Alpha": 0.01, "Batch": 31}
        self.expect_right(descriptor)

    def test_ranks_share_the_units_and_agree(self):
        for output in ("Sigmoid", "SoftMax"):
            descriptor = network("CrossEntropy", output, units=self.random.randrange(400, 3000), batch=16)
            costs = {self.expect_right(descriptor, ranks=ranks)[0].stdout.split("first cost ")[1] for ranks in (1, 2, 3)}
            self.assertEqual(len(costs), 1, f"seed {self.seed}: {costs}")

    def test_says_what_it_measured(self):
        done, said = self.expect_right(network("CrossEntropy", "Sigmoid", 300, 16), "--batch", "8")
        self.assertEqual((said["batch"], said["batches"], said["error"]), (8, 3, ""))
        self.assertTrue(0 < said["slowest"] <= said["samples_per_second"] <= said["fastest"], said)
        self.assertRegex(done.stdout, r"batch 8: [\d,]+ samples/s \([\d,]+ to [\d,]+\), \d")

    def write_network(self, *options):
        done = subprocess.run([PROGRAM, "--configs", ROOT / "configs/dsstne", "--write-network", "all.json", *options],
                              cwd=self.folder, capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((self.folder / "all.json").read_text(encoding="utf-8"))

    def test_writes_networks_of_images_with_all_sizes_for_peers(self):
        places = {"alexnet": {1: [55, 55, 96], 10: [6, 6, 256], 13: 1000}, "vgg16": {17: [14, 14, 512], 18: [7, 7, 512], 21: 1000},
                  "strawman": {3: [15, 15, 96], 6: [7, 7, 192], 7: 100}}
        for shape, sizes in places.items():
            batch = self.random.randrange(1, 500)
            written = self.write_network("--shape", shape, "--batch", str(batch))
            self.assertEqual({i: written["Layers"][i]["N"] for i in sizes}, sizes, shape)
            self.assertEqual((written["Training"]["Batch"], written["Training"]["Optimizer"]), (batch, "Momentum"))
            self.assertEqual([layer["Name"] for layer in written["Layers"] if "N" not in layer], [])

    def test_hidden_layers_have_as_many_units_as_are_asked_for(self):
        for shape, layers in {"debian_packages": 1, "ml20m": 3}.items():
            units = self.random.randrange(2, 5000)
            own, asked = (self.write_network("--shape", shape, *more)["Layers"] for more in ([], ["--hidden", str(units)]))
            self.assertEqual([layer["N"] for layer in asked], [own[0]["N"], *[units] * layers, own[-1]["N"]], f"seed {self.seed}")

    def test_times_a_network_of_images_and_checks_it(self):
        batch = self.random.randrange(2, 6)
        done, said = self.run_bench(None, "--shape", "strawman", "--configs", ROOT / "configs/dsstne", "--batch", str(batch))
        self.assertEqual(done.returncode, 0, f"seed {self.seed}: {done.stdout}{done.stderr}")
        self.assertNotIn("WRONG", done.stdout)
        self.assertRegex(done.stdout, rf"strawman batch {batch}: [\d,]+ samples/s")
        self.assertEqual((said["shape"], said["batch"], said["error"]), ("strawman", batch, ""))

    def test_a_layer_without_a_size_is_refused(self):
        done, said = self.run_bench(network("CrossEntropy", "Sigmoid", "auto", 8))
        self.assertEqual((done.returncode, said), (1, None))
        self.assertIn('layer "Input": train_bench makes its own data, so N must be a number', done.stderr)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""Learning rate schedules and clipping, as a user sees them: they train another model, the same on any number of ranks and
after an interruption, and are kept with the model."""
import json
import signal
import unittest

from norn_files import model_arrays
from programs import ProgramTest, mpirun

RANKS = mpirun(1)
SCHEDULES = (
    ("--rate-schedule", "step", "--rate-interval", "2", "--rate-multiplier", "0.3"),
    ("--rate-schedule", "cosine", "--rate-minimum", "0.01", "--warm-up", "1.5"),
    ("--rate-schedule", "plateau", "--rate-patience", "1", "--validation-split", "0.2"),
    ("--warm-up", "0.5", "--clip-gradient", "0.001"),
)


class Rates(ProgramTest):
    def test_every_schedule_trains_another_model_and_the_same_on_any_number_of_ranks(self):
        self.train("-e", "6", "-alpha", "0.05", model="plain.nc")
        seen = {model_arrays(self.path("plain.nc"))[0]["weight0_weights"].tobytes()}
        for number, schedule in enumerate(SCHEDULES):
            settings = ("-e", "6", "-alpha", "0.05", *schedule)
            self.train(*settings, model=f"{number}.nc")
            seen.add(model_arrays(self.path(f"{number}.nc"))[0]["weight0_weights"].tobytes())
            for ranks in (2, 3) if RANKS else ():
                self.train(*settings, "--threads", "1", model=f"{number}_{ranks}.nc", prefix=mpirun(ranks))
                self.assertEqual(self.read(f"{number}_{ranks}.nc"), self.read(f"{number}.nc"), schedule)
        self.assertEqual(len(seen), 1 + len(SCHEDULES))

    def test_an_interrupted_run_goes_on_with_the_rates_of_its_epochs(self):
        for number, schedule in enumerate(SCHEDULES[1:3]):
            settings = ("-e", "400", "--checkpoint-epochs", "0", *schedule)
            self.train(*settings, model=f"straight{number}.nc")
            run = ("-c", "net.json", "-i", "train.nc", "-n", f"model{number}.nc", *settings)
            code, _, err = self.stop_after_epochs(signal.SIGUSR1, self.random.randint(1, 100), *run)
            self.assertEqual(code, 75, err)
            self.succeed("trainer", *run, "--resume")
            self.assertEqual(self.read(f"model{number}.nc"), self.read(f"straight{number}.nc"), schedule)

    def test_settings_are_kept_with_the_model(self):
        self.train("-e", "1", "--rate-schedule", "cosine", "--warm-up", "0.25", "--clip-gradient", "0.5")
        training = json.loads(model_arrays(self.path("model.nc"))[1]["norn_descriptor"])["Training"]
        self.assertEqual((training["RateSchedule"], training["WarmUp"], training["ClipGradient"]), ("Cosine", 0.25, 0.5))

    def test_what_has_no_effect_is_said(self):
        done = self.train("-e", "1", "--rate-interval", "3")
        self.assertIn("--rate-interval has no effect with the rate schedule constant; --rate-schedule chooses another",
                      done.stderr)
        base = ("trainer", "-c", "net.json", "-i", "train.nc", "-n", "other.nc")
        self.fail_with(2, "--clip-gradient -1 is out of range: it must be at least 0", *base, "--clip-gradient", "-1")
        self.fail_with(2, "--rate-minimum 2 is out of range: it must be from 0 to 1", *base, "--rate-minimum", "2")


if __name__ == "__main__":
    unittest.main(verbosity=2)

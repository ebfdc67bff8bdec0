# SPDX-License-Identifier: Apache-2.0
"""The day's work of all regions as a flow of Metaflow; README.md beside this file says how to run it."""
import datetime
import shlex
import subprocess

from metaflow import FlowSpec, Parameter, retry, step

SOME_NOT_PUBLISHED = 7  # daily's exit code where a region goes no further; others go on


class DailyFlow(FlowSpec):
    """Imports and searches for all regions at once, because a search knows what those of larger regions found; then a task for each
    region's step."""

    regions = Parameter("regions", required=True, help="file of --regions")
    day = Parameter("day", default="", help="such as 2026-11-22 [today]")
    daily = Parameter("daily", default="daily", help="the program, with options that all steps have, such as --threads 4")
    search = Parameter("search", default="--slots 2",
                       help="more options for import and search, such as --executor slurm --executor-file slurm.json")

    def call(self, *words: str) -> int:
        """Of daily; what is made already is not made again, so a task may be repeated."""
        command = [*shlex.split(self.daily), "--regions", self.regions, "--day", self.today, *words]
        code = subprocess.call(command)
        if code not in (0, SOME_NOT_PUBLISHED):
            raise RuntimeError(f"{' '.join(command)} ended with {code}")
        return code

    def make(self, name: str) -> None:
        region, _, steps = self.input.partition("\t")
        if name in steps.split():  # without Recommend in regions.json nothing is recommended
            self.call("--region", region, "--step", name, "--go-on")

    @step
    def start(self):
        self.today = self.day or datetime.date.today().isoformat()
        self.next(self.tune)

    @retry(times=2)
    @step
    def tune(self):
        self.call(*shlex.split(self.search), "--until", "tune")
        self.lines = subprocess.check_output([*shlex.split(self.daily), "--regions", self.regions, "--list"], text=True).splitlines()
        self.next(self.train, foreach="lines")

    @retry(times=2)
    @step
    def train(self):
        self.make("train")
        self.next(self.gate)

    @step
    def gate(self):
        self.make("gate")
        self.next(self.publish)

    @step
    def publish(self):
        self.make("publish")
        self.next(self.recommend)

    @step
    def recommend(self):
        self.make("recommend")
        self.next(self.together)

    @step
    def together(self, inputs):
        self.today = inputs[0].today
        self.next(self.end)

    @step
    def end(self):
        self.some_not_published = self.call("--status") == SOME_NOT_PUBLISHED
        if self.some_not_published:
            raise RuntimeError("some regions are not published; what is wrong stands above")


if __name__ == "__main__":
    DailyFlow()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The search in logical time: the same decisions for any number of workers, any order of finishing, any loss of work; and what they are."""
import math
import unittest

import numpy as np

from tuner_case import NETWORK, PARAMETERS, SeededTest

from norn.tune.sampler import Sampler
from norn.tune.search import DIVERGED, DONE, FAILED, HALVED, INFEASIBLE, Known, Plan, Rules, Search
from norn.tune.space import space_of
from norn.tune.study import default_clock


class World:
    """Trainings without a trainer: curves, prices and failures are functions of the row."""

    def __init__(self, space, seed):
        self.space, self.seed = space, seed

    def _number(self, row, what):
        return np.random.default_rng([self.seed, what, *np.abs(row * 1e6).astype(np.int64)]).uniform()

    def plan(self, number, row):
        return Plan(self._number(row, 1) > 0.1, 0.5 + 2.0 * self._number(row, 2), 18 if self._number(row, 3) < 0.8 else 5)

    def breaks(self, row):
        """(epoch from which nothing more comes, how)."""
        luck = self._number(row, 4)
        return (3, DIVERGED) if luck < 0.08 else (11, FAILED) if luck < 0.14 else (math.inf, None)

    def value(self, row, epoch):
        return float(-np.sum((row[:3] - 0.6) ** 2) - self._number(row, 5) / epoch)


def study(world, rules, trials, workers, chance, kind="gp", start=8, loss=0.0, sampler=None):
    """(decisions by kind, search, epochs trained) of simulated workers of random speeds that lose work."""
    sampler = sampler or Sampler(world.space, kind, 5, start)
    search = Search(rules, sampler.propose, world.plan, trials=trials[0])
    stages = list(trials[1:])
    busy, decisions, now, made = {}, {}, 0.0, 0
    while True:
        for decision in search.advance():
            decisions.setdefault(decision.event, []).append(repr(decision.members))
        if search.done and not stages:
            return decisions, search, made
        if search.done:
            search.extend(stages.pop(0))
            continue
        for segment in search.wanted():
            if len(busy) < workers and segment.trial not in busy:
                busy[segment.trial] = (now + chance.lognormvariate(0, 0.7), segment.epoch)
        assert busy, "nothing runs, and the search waits"
        trial = min(busy, key=lambda t: busy[t][0])
        now, epoch = busy.pop(trial)
        if chance.random() < loss:
            continue
        row = search.trials[trial].row
        limit, how = world.breaks(row)
        if epoch > limit:
            search.broke(trial, how)
        else:
            search.value(trial, epoch, world.value(row, epoch))
            made += epoch


class Same(SeededTest):
    def test_any_number_of_workers_makes_the_same_decisions(self):
        space = space_of({"Parameters": PARAMETERS}, NETWORK, "space.json")
        for rules in (Rules(4, (2, 6), 2), Rules(8, (1, 3, 9), 3), Rules(3, (), 2), Rules(1, (2,), 2)):
            world = World(space, self.random.randrange(2**31))
            first = None
            for workers in (1, 2, 8, 33):
                found, search, _ = study(world, rules, (40,), workers, self.random, loss=0.1 if workers > 1 else 0.0)
                first = first or found
                self.assertEqual(found, first, f"{workers} workers, {rules}")
                self.assertEqual((len(search.trials), len(search.finished)), (40, 40))

    def test_a_longer_study_begins_with_the_proposals_of_the_shorter_one(self):
        world = World(space_of({"Parameters": PARAMETERS}, NETWORK, "space.json"), self.seed)
        short, long = (study(world, Rules(4, (2, 6)), (trials,), 3, self.random)[0] for trials in (15, 40))
        self.assertEqual(long["propose"][:15], short["propose"])

    def test_a_study_that_is_extended_is_the_same_on_any_number_of_workers_and_keeps_what_was_decided(self):
        world = World(space_of({"Parameters": PARAMETERS}, NETWORK, "space.json"), self.seed)
        short = study(world, Rules(4, (2, 6)), (11,), 3, self.random)[0]
        first = None
        for workers in (1, 3, 9):
            found = study(world, Rules(4, (2, 6)), (11, 12, 30), workers, self.random, loss=0.1)[0]
            first = first or found
            self.assertEqual(found, first)
        for kind in short:
            self.assertEqual(first[kind][:len(short[kind])], short[kind])
        self.assertEqual(len(first["propose"]), 30)

    def test_random_and_grid_need_no_results(self):
        space = space_of({"Parameters": {"A": {"Values": [1, 2, 3]}, "B": {"Names": ["x", "y"]}, "C": {"Whole": [1, 3]}}}, NETWORK,
                         "space.json")
        world = World(space, self.seed)
        for kind, trials in (("random", 30), ("grid", 30)):
            first = study(world, Rules(4, (2,)), (trials,), 1, self.random, kind)[0]
            self.assertEqual(study(world, Rules(4, (2,)), (trials,), 7, self.random, kind)[0], first)
            self.assertEqual(len(first["propose"]), trials if kind == "random" else 18)


class Decisions(SeededTest):
    def setUp(self):
        super().setUp()
        self.space = space_of({"Parameters": {"A": {"Range": [0, 1]}}}, NETWORK, "space.json")

    def search(self, rules, plan=lambda number, row: Plan(True, 1.0, 12), **limits):
        return Search(rules, lambda number, results, pending: np.array([0.001 * number]), plan, **limits)

    def run_all(self, search, value):
        """Gives each value at once; all decisions."""
        decisions = []
        while not search.done:
            decisions += search.advance()
            for segment in search.wanted():
                search.value(segment.trial, segment.epoch, value(segment.trial, segment.epoch))
        return decisions

    def test_of_those_at_a_rung_the_upper_share_goes_on(self):
        drawn = [self.random.random() for _ in range(60)]
        # Where each is better than those before it all go on; where each is worse, those that come before there is a share to be had.
        for keep, values, go_on in ((keep, *one) for keep in (2, 3, 4)
                                    for one in ((drawn, None), (sorted(drawn), 60), (sorted(drawn, reverse=True), keep))):
            search = self.search(Rules(1, (2,), keep), trials=60)
            decisions = [d.members for d in self.run_all(search, lambda trial, epoch, of=values: of[trial]) if d.event == "rung"]
            before = []
            for one in decisions:
                # By its definition: after it has come there, it is one of the best len / keep, rounded down, but at least one goes on.
                ranked = sorted([*before, one["value"]], reverse=True)
                kept = ranked.index(one["value"]) < len(ranked) / keep or len(before) < keep
                self.assertEqual(one["decision"] == "goes on", kept, one)
                before.append(one["value"])
            if go_on is not None:
                self.assertEqual(sum(d["decision"] == "goes on" for d in decisions), go_on)

    def test_epochs_count_once_and_stop_at_a_rung(self):
        search = self.search(Rules(2, (1, 4), 2), trials=20)
        self.run_all(search, lambda trial, epoch: -trial)
        for trial in search.finished:
            self.assertEqual(trial.reached, {DONE: 12}.get(trial.state, trial.reached))
            self.assertIn(trial.reached, (1, 4, 12))
        self.assertEqual(search.spent_epochs, sum(trial.reached for trial in search.finished))
        self.assertIn(HALVED, {trial.state for trial in search.finished})

    def test_budgets_of_epochs_and_seconds_end_it(self):
        # 8 trials make 96 epochs of a second each.
        for limits, trials in (({"epochs": 100}, 9), ({"seconds": 100.0}, 9), ({"epochs": 96}, 8), ({"seconds": 96.0}, 8)):
            search = self.search(Rules(1), **limits)
            self.run_all(search, lambda trial, epoch: 0.0)
            self.assertEqual(len(search.finished), trials, limits)

    def test_what_does_not_fit_is_told_at_once_and_costs_nothing(self):
        search = self.search(Rules(2), lambda number, row: Plan(number % 3 > 0, 1.0, 5), trials=12)
        self.run_all(search, lambda trial, epoch: 0.0)
        self.assertEqual([t.number for t in search.finished if t.state == INFEASIBLE], [0, 3, 6, 9])
        self.assertEqual(search.spent_epochs, 8 * 5)

    def test_a_space_in_which_nothing_fits_comes_to_an_end(self):
        search = self.search(Rules(2), lambda number, row: Plan(False, 0.0, 0))
        self.run_all(search, lambda trial, epoch: 0.0)
        self.assertTrue(search.stuck)

    def test_what_was_halved_counts_with_what_the_others_gained(self):
        search = self.search(Rules(1, (2,)), trials=5)
        gains = {0: 0.5, 1: 0.3, 2: 0.7, 3: 9.0, 4: 9.0}
        base = {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.0, 4: 0.05}
        self.run_all(search, lambda trial, epoch: base[trial] + (gains[trial] if epoch == 12 else 0.0))
        known = Known(1)
        for trial in search.finished:
            known.add(trial)
        found = {result.trial: result.value for result in known.results()}
        self.assertEqual([search.trials[n].state for n in range(5)], [DONE, DONE, DONE, HALVED, HALVED])
        for number in (3, 4):
            self.assertAlmostEqual(found[number], base[number] + 0.5)

    def test_proposals_know_what_has_ended_and_what_runs(self):
        asked = []

        def propose(number, results, pending):
            asked.append(([r.trial for r in results], [t.number for t in pending]))
            return np.array([0.0])

        search = Search(Rules(2), propose, lambda number, row: Plan(True, (1.0, 1.5)[number % 2], 10), trials=6)
        self.run_all(search, lambda trial, epoch: 0.0)
        # Trials end at 10 (0), 15 (1), 20 (2, in slot 0), 30 (3 in slot 1, and 4).
        self.assertEqual(asked, [([], []), ([], [0]), ([0], [1]), ([0, 1], [2]), ([0, 1, 2], [3]), ([0, 1, 2, 3, 4], [])])


class Wanted(SeededTest):
    def looked_through(self, search, taken):
        """By its definition, from all trials."""
        found = []
        for trial in search.trials:
            left = [stop for stop in trial.stops if stop not in trial.values]
            if left and trial.broken is None and trial.state in (None, DONE) and trial.number not in taken:
                stop = trial.stops.index(left[0])
                found.append((stop > trial.passed, trial.time_of(stop), trial.number, left[0]))
        return [(number, epoch) for _, _, number, epoch in sorted(found)]

    def test_what_is_wanted_and_nobody_trains_is_what_a_look_through_all_trials_finds(self):
        world = World(space_of({"Parameters": PARAMETERS}, NETWORK, "space.json"), self.seed)
        search = Search(Rules(12, (2, 6)), Sampler(world.space, "random", 5, 8).propose, world.plan, trials=150)
        taken, guesses = {5, 140}, 0
        for number in taken:
            search.take(number)  # before it is proposed
        while True:
            search.advance()
            everything = self.looked_through(search, taken)
            self.assertEqual(search.wanted(), everything)
            self.assertEqual(search.wanted(most=3), everything[:3])
            certain = search.wanted(speculate=False)
            guesses += len(everything) - len(certain)
            self.assertEqual(certain, everything[:len(certain)])
            if search.done:
                break
            free = [number for number, _ in everything]
            if free and self.random.random() < 0.6:
                number = self.random.choice(free)
                taken.add(number)
                search.take(number)
                continue
            number = self.random.choice(sorted(n for n in taken if n < len(search.trials)) or free)
            self.come(search, world, number)
            taken.discard(number)
            search.give_back(number)
        self.assertGreater(guesses, 0)

    def come(self, search, world, number):
        """Its next value, if there is one."""
        trial = search.trials[number]
        limit, how = world.breaks(trial.row)
        epoch = next((stop for stop in trial.stops if stop not in trial.values), None)
        if epoch is not None and epoch > limit:
            search.broke(number, how)
        elif epoch is not None and trial.plan.fits:
            search.value(number, epoch, world.value(trial.row, epoch))


class Work(SeededTest):
    def test_workers_have_work_nearly_all_the_time(self):
        """Simulated, halving: the share of eight workers' time until the last proposal in which they train what the search turns out to
        need. Batches of eight make 0.37."""
        for noise, least in ((0.05, 0.9), (0.2, 0.8)):
            useful, whole = np.sum([self.work(8, default_clock(8), noise, repetition) for repetition in range(3)], axis=0)
            print(f"speeds differ by {noise:.0%}: share of time used {useful / whole:.3f}")
            self.assertGreater(useful / whole, least)

    def work(self, workers, slots, noise, repetition, trials=160):
        """(useful seconds, seconds of all workers)."""
        draw = np.random.default_rng([self.seed, repetition])
        prices, values, speeds = draw.lognormal(0, 0.4, trials), draw.uniform(size=trials), draw.lognormal(0, noise, trials)
        search = Search(Rules(slots, (2, 6)), lambda n, r, p: np.array([0.0]), lambda n, row: Plan(True, float(prices[n]), 18),
                        trials=trials)
        running, now, spans, end = {}, 0.0, [], None
        while True:
            search.advance()
            for trial in [n for n in running if search.trials[n].state == HALVED]:  # its verdict came while it went on
                begun, _, known, _ = running.pop(trial)
                spans.append((trial, known, begun, now))
                search.give_back(trial)
            if end is None and len(search.trials) == trials:
                end = now
            if search.done:
                useful = sum(min(last, end) - min(first, end)
                             for trial, known, first, last in spans if known < search.trials[trial].reached)
                return useful, workers * end
            for segment in search.wanted(most=workers - len(running)):
                known = max(search.trials[segment.trial].values, default=0)
                seconds = (segment.epoch - known) * prices[segment.trial] * speeds[segment.trial]
                running[segment.trial] = (now, now + seconds, known, segment.epoch)
                search.take(segment.trial)
            trial = min(running, key=lambda t: running[t][1])
            begun, now, known, epoch = running.pop(trial)
            spans.append((trial, known, begun, now))
            search.give_back(trial)
            search.value(trial, epoch, float(values[trial]))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Linear autoencoders in PyTorch, on the sets of the recipes: Recall@20, NDCG@20 and seconds of training.

EASE: Steck, "Embarrassingly Shallow Autoencoders for Sparse Data", WWW 2019, in closed form. ELSA: Vancura, Alves, Kasalicky, Kordik,
"Scalable Linear Shallow Autoencoder for Collaborative Filtering", RecSys 2022: weights A A' - 1 with rows of A of length 1, learnt from
rows and predictions of length 1 both. Each setting is tried on a fifth of every training line; the best one is trained on the whole
training part and measured on the test part.

  tests/bench/peers/linear_models.py gowalla --folder gowalla=FOLDER --device cuda"""
import argparse
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import recipe_runs  # noqa: E402

TOP = 20
BATCH = 1024
LAMBDAS = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
ELSA = [{"factors": factors, "epochs": epochs, "rate": rate}
        for factors in (512, 1024, 2048) for epochs in (10, 20) for rate in (0.003, 0.01)]


class Parts:
    """Users' items to learn from and to find: lists of lists of numbers."""

    def __init__(self, kept, held_out, device):
        items, users = {}, {}
        self.rows = [self._numbers(line, items, users) for line in kept]
        self.wanted = [[] for _ in users]
        for line in held_out:
            user = line.partition("\t")[0]
            found = self._numbers(line, items, None)
            if user in users:
                self.wanted[users[user]] = found
        self.width, self.device = len(items), device

    @staticmethod
    def _numbers(line, items, users):
        user, _, words = line.partition("\t")
        if users is not None:
            users[user] = len(users)
        return [items.setdefault(word, len(items)) for word in words.split(":") if word]

    def dense(self, numbers, lists):
        """[len(numbers), width] of ones where the lists name an item."""
        rows = torch.tensor([i for i, number in enumerate(numbers) for _ in lists[number]], device=self.device)
        columns = torch.tensor([item for number in numbers for item in lists[number]], device=self.device)
        matrix = torch.zeros(len(numbers), self.width, device=self.device)
        matrix[rows, columns] = 1
        return matrix

    def metrics(self, scores):
        """(Recall, NDCG) of scores(rows), means over users of whom something is to be found; see docs/user/metrics.md."""
        asked = [user for user, wanted in enumerate(self.wanted) if wanted]
        gain = 1 / torch.log2(torch.arange(2.0, TOP + 2, device=self.device))
        best = torch.cat([torch.zeros(1, device=self.device), gain.cumsum(0)])
        total = torch.zeros(2, dtype=torch.float64, device=self.device)
        for first in range(0, len(asked), BATCH):
            users = asked[first:first + BATCH]
            known, wanted = self.dense(users, self.rows), self.dense(users, self.wanted)
            top = scores(known).masked_fill_(known > 0, -torch.inf).topk(TOP, dim=1).indices
            hits, counts = wanted.gather(1, top), wanted.sum(1)
            total[0] += (hits.sum(1) / counts).sum()
            total[1] += (hits @ gain / best[counts.clamp(max=TOP).long()]).sum()
        return [float(value) / len(asked) for value in total]


def ease(parts, settings):
    gram = torch.zeros(parts.width, parts.width, device=parts.device)
    for first in range(0, len(parts.rows), BATCH):
        rows = parts.dense(range(first, min(first + BATCH, len(parts.rows))), parts.rows)
        gram.addmm_(rows.t(), rows)
    gram.diagonal().add_(settings["lambda"])
    inverse = torch.linalg.inv(gram)
    del gram
    weights = inverse.div_(-inverse.diagonal().clone())
    weights.diagonal().zero_()
    return lambda rows: rows @ weights


def elsa(parts, settings):
    table = torch.empty(parts.width, settings["factors"], device=parts.device)
    torch.nn.init.xavier_uniform_(table)
    table.requires_grad_()
    optimizer = torch.optim.NAdam([table], lr=settings["rate"])
    for _ in range(settings["epochs"]):
        order = torch.randperm(len(parts.rows)).tolist()
        for first in range(0, len(order), BATCH):
            rows = parts.dense(order[first:first + BATCH], parts.rows)
            unit = F.normalize(table, dim=1)
            found = F.relu(rows @ unit @ unit.t() - rows)
            loss = F.mse_loss(F.normalize(found, dim=1), F.normalize(rows, dim=1), reduction="sum") / len(rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    unit = F.normalize(table.detach(), dim=1)
    return lambda rows: rows @ unit @ unit.t() - rows


def measure(train, parts, settings):
    """(Recall, NDCG, seconds of training)."""
    torch.manual_seed(1)
    started = time.monotonic()
    scores = train(parts, settings)
    if parts.device == "cuda":
        torch.cuda.synchronize()
    seconds = time.monotonic() - started
    return *parts.metrics(scores), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="debian_packages or gowalla")
    recipe_runs.add_folder_option(parser)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", choices=("ease", "elsa"), help="one of them [both]")
    args = parser.parse_args()
    known = recipe_runs.data_from(args)
    if args.data not in known:
        sys.exit(f"linear_models: there are no data {args.data}; known: {', '.join(known)}")
    data = known[args.data]
    search = Parts(*recipe_runs.hold_out(data.lines("train"), 0.2, 1), args.device)
    final = Parts(data.lines("train"), data.lines("test"), args.device)
    for name, train, tried in (("ease", ease, [{"lambda": value} for value in LAMBDAS]), ("elsa", elsa, ELSA)):
        if args.only not in (None, name):
            continue
        results = [(measure(train, search, settings), settings) for settings in tried]
        for result, settings in results:
            print(f"{name} {settings}: held out {result[0]:.4f} / {result[1]:.4f}, {result[2]:.1f} s", flush=True)
        best = max(results, key=lambda one: one[0][0] + one[0][1])[1]
        recall, ndcg, seconds = measure(train, final, best)
        print(f"{data.name}: {name} {best}: test part {recall:.4f} / {ndcg:.4f}, {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()

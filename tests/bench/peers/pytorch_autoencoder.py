# SPDX-License-Identifier: Apache-2.0
"""The networks of Norn's CPU benchmarks in PyTorch, as a user of it would write them.

Needs Debian's python3-torch. Prints a line of figures and one of JSON: samples a second (median over the steps
after the warm-up), the last loss, and with --evaluate Recall@20 and NDCG@20 on the held-out part."""
import argparse
import json
import os
import pathlib
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "golden"))
import reference_metrics  # noqa: E402
import sparse_text  # noqa: E402

ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu, "sigmoid": torch.sigmoid}


class Batch:
    """One step's rows: entry lists, and the dense 0/1 matrix when somebody asks for it."""

    def __init__(self, begin, column, width):
        self.begin = torch.from_numpy(begin)
        self.column = torch.from_numpy(column)
        self.width = width
        self.counts = self.begin[1:] - self.begin[:-1]
        self.row = torch.repeat_interleave(torch.arange(len(begin) - 1), self.counts)

    def dense(self, value=None):
        matrix = torch.zeros(len(self.counts), self.width)
        matrix[self.row, self.column] = torch.ones(len(self.column)) if value is None else value
        return matrix

    def normalised(self):
        """Entry values of rows divided by their L2 norms: 1 / sqrt(number of entries)."""
        return self.counts.clamp(min=1).float().rsqrt()[self.row]


class Autoencoder(torch.nn.Module):
    """Sparse input, hidden layers of one activation, one output unit an item (logits)."""

    def __init__(self, args, width):
        super().__init__()
        self.args = args
        sizes = [width, *args.hidden]
        if args.input == "bag":
            self.first = torch.nn.EmbeddingBag(width, sizes[1], mode="sum", sparse=args.sparse_gradients)
            torch.nn.init.xavier_uniform_(self.first.weight)
            self.first_bias = torch.nn.Parameter(torch.zeros(sizes[1]))
        else:
            self.first = torch.nn.Linear(width, sizes[1])
        self.rest = torch.nn.ModuleList(
            torch.nn.Linear(n, m) for n, m in zip(sizes[1:], [*sizes[2:], width]))
        for layer in [m for m in self.modules() if isinstance(m, torch.nn.Linear)]:
            torch.nn.init.xavier_uniform_(layer.weight)
            torch.nn.init.zeros_(layer.bias)

    def forward(self, batch):
        value = batch.normalised() if self.args.normalize else torch.ones(len(batch.column))
        value = F.dropout(value, self.args.dropout, self.training)
        if self.args.input == "bag":
            h = self.first(batch.column, batch.begin[:-1], per_sample_weights=value) + self.first_bias
        else:
            h = self.first(batch.dense(value))
        for layer in self.rest:
            h = layer(ACTIVATIONS[self.args.activation](h))
        return h


def loss_of(args, logits, batch):
    """Summed over units, mean over the batch."""
    if args.loss == "bce":
        return F.binary_cross_entropy_with_logits(logits, batch.dense(), reduction="sum") / len(logits)
    return -F.log_softmax(logits, dim=1)[batch.row, batch.column].sum() / len(logits)


def make_optimizers(args, model):
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[args.optimizer]
    if not args.sparse_gradients or args.input != "bag":
        return [kind(model.parameters(), lr=args.rate)]
    rows = torch.optim.SparseAdam if args.optimizer == "adam" else torch.optim.SGD
    dense = [p for name, p in model.named_parameters() if name != "first.weight"]
    return [rows([model.first.weight], lr=args.rate), kind(dense, lr=args.rate)]


def train(args, model, rows):
    """Returns seconds and examples of every step, and the mean loss of the last epoch."""
    optimizers = make_optimizers(args, model)
    random = np.random.default_rng(args.seed)
    seconds, counts, mean = [], [], float("nan")
    model.train()
    for _ in range(args.epochs):
        order = random.permutation(rows.rows)
        total = 0.0
        for first in range(0, rows.rows, args.batch):
            if args.steps and len(seconds) >= args.steps:
                return seconds, counts, total / max(1, first)
            start = time.perf_counter()
            batch = Batch(*rows.gather(order[first : first + args.batch]), rows.width)
            loss = loss_of(args, model(batch), batch)
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=True)
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
            total += loss.item() * len(batch.counts)
            seconds.append(time.perf_counter() - start)
            counts.append(len(batch.counts))
        mean = total / rows.rows
    return seconds, counts, mean


def evaluate(args, model, rows, held_out, k=20):
    model.eval()
    each = []
    with torch.no_grad():
        for first in range(0, rows.rows, args.batch):
            users = np.arange(first, min(rows.rows, first + args.batch))
            scores = model(Batch(*rows.gather(users), rows.width))
            for u, row in zip(users, scores.numpy()):
                wanted = held_out.column[held_out.row_begin[u] : held_out.row_begin[u + 1]]
                if len(wanted):
                    row[rows.column[rows.row_begin[u] : rows.row_begin[u + 1]]] = -np.inf
                    ranked = reference_metrics.ranking(row, (), k)
                    each.append(reference_metrics.metrics_of_user(ranked, wanted, k))
    return {f"{name}@{k}": float(np.mean([m[name] for m in each])) for name in ("Recall", "NDCG")}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", help="text file to train on; without it a synthetic set is made")
    parser.add_argument("--test", help="text file of held-out features, the same examples in the same order")
    parser.add_argument("--examples", type=int, default=20000, help="of the synthetic set")
    parser.add_argument("--width", type=int, default=27278, help="of the synthetic set")
    parser.add_argument("--nonzeros", type=int, default=144, help="a row of the synthetic set")
    parser.add_argument("--dump", help="write the set as text here and stop")
    parser.add_argument("--input", choices=["bag", "dense"], default="bag")
    parser.add_argument("--sparse-gradients", action="store_true", help="with --input bag: update touched rows only")
    parser.add_argument("--hidden", type=int, nargs="+", default=[512])
    parser.add_argument("--activation", choices=sorted(ACTIVATIONS), default="relu")
    parser.add_argument("--loss", choices=["bce", "multinomial"], default="bce")
    parser.add_argument("--normalize", action="store_true", help="divide input rows by their L2 norms")
    parser.add_argument("--dropout", type=float, default=0.0, help="of input entries")
    parser.add_argument("--optimizer", choices=["adam", "sgd"], default="adam")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0, help="stop after so many steps; 0: only after the epochs")
    parser.add_argument("--warmup", type=int, default=5, help="steps that are not timed")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--evaluate", action="store_true")
    return parser.parse_args()


def load(args):
    if args.train is None:
        return sparse_text.generate(args.examples, args.width, args.nonzeros, args.seed), None
    train_rows = sparse_text.read_text(args.train)
    if args.test is None:
        return train_rows, None
    # One numbering for both: features that only the test part knows come last.
    names = sparse_text.read_text(args.test).features
    known = set(train_rows.features)
    features = train_rows.features + [name for name in names if name not in known]
    train_rows.features, train_rows.width = features, len(features)
    return train_rows, sparse_text.read_text(args.test, features)


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    rows, held_out = load(args)
    if args.dump:
        sparse_text.write_text(rows, args.dump)
        return
    model = Autoencoder(args, rows.width)
    seconds, counts, loss = train(args, model, rows)
    rates = [n / s for n, s in zip(counts[args.warmup :], seconds[args.warmup :])]
    result = {
        "peer": f"PyTorch {torch.__version__}", "input": args.input, "optimizer": args.optimizer, "loss": args.loss,
        "hidden": args.hidden, "width": rows.width, "batch": args.batch, "threads": torch.get_num_threads(),
        "blas_core": os.environ.get("OPENBLAS_CORETYPE", "detected"), "steps": len(seconds),
        "samples_per_second": float(np.median(rates)), "final_loss": loss,
    }
    if args.evaluate and held_out is not None:
        result.update(evaluate(args, model, rows, held_out))
    print(f"{result['samples_per_second']:.0f} samples/s, loss {loss:.4f}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()

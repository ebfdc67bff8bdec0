# SPDX-License-Identifier: Apache-2.0
"""The peer of scale_curves.py in PyTorch: the same autoencoder, whose outputs share a SoftMax that is estimated by a sample of items.

Input: an EmbeddingBag with inverse document frequencies and rows divided by their L2 norms, entries dropped at random; tanh units; an
output table with biases. Loss of a user, divided by the number of positives n:

    log Z - mean of z_p over positives,   Z = sum of exp(z_p) over positives + sum of exp(z_j) / c_j over negatives

Negatives are drawn anew in each step for the whole batch, a part by popularity and a part uniformly; c_j is how often item j is expected
in the draw (logQ correction), and those that are a user's own positives are left out for that user: an unbiased Z. Gradients are by hand,
without autograd; rows are updated where a batch has touched them, by Adam (as torch.optim.SparseAdam) or by AdaGrad with one sum a
row. Nothing is copied from the device in a step.

Reads the folder that scale_curves.py made, writes {curve, facts} as JSON. --check compares the gradients with those of autograd in float64
and ends."""
import argparse
import json
import math
import pathlib
import sys
import time

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import planted_catalogue  # noqa: E402

BETAS, EPSILON = (0.9, 0.999), 1e-8


class Table:
    """[rows x columns] that is updated row by row."""

    def __init__(self, value, rule):
        self.value, self.rule = value, rule
        rows = len(value)
        if rule == "adam":
            self.first, self.second = torch.zeros_like(value), torch.zeros_like(value)
        elif rule == "adagrad":
            self.sums = torch.zeros(rows, device=value.device, dtype=value.dtype)

    def update(self, ids, chosen, gradient, rate, step):
        """gradient [ids x columns]: summed at the places `chosen` of merge. A row that is there twice is written twice, alike."""
        rows, gradient = self.value[ids], gradient[chosen]
        if self.rule == "adam":
            first = torch.lerp(gradient, self.first[ids], BETAS[0])
            second = torch.lerp(gradient * gradient, self.second[ids], BETAS[1])
            self.first[ids], self.second[ids] = first, second
            size = rate * math.sqrt(1 - BETAS[1] ** step) / (1 - BETAS[0] ** step)
            self.value[ids] = rows - size * first / (second.sqrt() + EPSILON)
        elif self.rule == "adagrad":
            sums = self.sums[ids] + (gradient * gradient).mean(dim=1)
            self.sums[ids] = sums
            self.value[ids] = rows - rate * gradient / (sums.sqrt() + EPSILON).unsqueeze(1)
        else:
            self.value[ids] = rows - rate * gradient


class Autoencoder:
    """items [items x hidden] twice; shapes: B users, n items of each, S negatives, d hidden units."""

    def __init__(self, counts, users, args, device, dtype=torch.float32):
        items, self.args = len(counts), args
        generator = torch.Generator(device=device).manual_seed(args.seed)
        torch.manual_seed(args.seed)
        uniform = lambda scale: torch.empty(items, args.hidden, device=device, dtype=dtype).uniform_(-scale, scale, generator=generator)
        self.idf = torch.log((1.0 + users) / (1.0 + counts.to(dtype))) + 1.0
        self.popularity = counts.to(dtype) / counts.sum()
        self.inputs = Table(uniform(args.start or math.sqrt(6 / (items + args.hidden))), args.rule)
        self.outputs = Table(uniform(1 / math.sqrt(args.hidden)), args.rule)
        self.biases = Table(torch.log(self.popularity + 1 / items).unsqueeze(1), args.rule)
        self.hidden_bias = Table(torch.zeros(1, args.hidden, device=device, dtype=dtype), args.rule)
        self.slots = torch.zeros(items, dtype=torch.int32, device=device)  # where an item stands in a list

    def merge(self, ids):
        """[ids]: the place in `ids` that stands for each, the same for the same item."""
        self.slots[ids] = torch.arange(len(ids), device=ids.device, dtype=torch.int32)
        return self.slots[ids].long()

    def weights(self, items):
        """[B x n] of entries: idf over the norm of the row."""
        own = self.idf[items]
        return own / own.norm(dim=1, keepdim=True)

    def units(self, items, weights):
        """[B x d] before the activation."""
        return torch.nn.functional.embedding_bag(items, self.inputs.value, per_sample_weights=weights, mode="sum") + self.hidden_bias.value

    def negatives(self, positives):
        """([S] items, [S] logarithms of how often each is expected in the draw)."""
        device, args = positives.device, self.args
        popular = positives.reshape(-1)[torch.randint(positives.numel(), (args.popular,), device=device)]
        drawn = torch.cat([popular, torch.randint(len(self.idf), (args.uniform,), device=device)])
        return drawn, torch.log(args.popular * self.popularity[drawn] + args.uniform / len(self.idf))

    def loss_and_gradients(self, hidden, items, negatives, log_expected):
        """(loss, d loss / d hidden [B x d], d loss / d z of positives [B x n], of negatives [B x S], rows of positives)."""
        users, count = items.shape
        rows, others = self.outputs.value[items], self.outputs.value[negatives]
        z = torch.einsum("bnd,bd->bn", rows, hidden) + self.biases.value[items].squeeze(2)
        z_others = hidden @ others.t() + (self.biases.value[negatives].squeeze(1) - log_expected)
        same = self.merge(negatives)
        place = self.slots[items].long().clamp_(0, len(negatives) - 1)  # of items that were not drawn: anything
        mask = torch.zeros(users, len(negatives) + 1, dtype=torch.bool, device=items.device)
        mask.scatter_(1, torch.where(negatives[place] == items, place, len(negatives)), True)
        z_others = z_others.masked_fill(mask[:, :-1][:, same], -torch.inf)
        log_z = torch.logaddexp(torch.logsumexp(z, 1), torch.logsumexp(z_others, 1)).unsqueeze(1)
        loss = (log_z.squeeze(1) - z.mean(1)).mean()
        of_positives = (torch.exp(z - log_z) - 1 / count) / users
        of_others = torch.exp(z_others - log_z) / users
        delta = of_others @ others + torch.einsum("bn,bnd->bd", of_positives, rows)
        return loss, delta, of_positives, of_others

    def step(self, items, rate, number):
        """One update by a batch of users, items [B x n]; the loss as a tensor."""
        args = self.args
        weights = self.weights(items)
        if args.denoising:
            weights = weights * (torch.rand_like(weights) >= args.denoising) / (1 - args.denoising)
        activation = torch.tanh(self.units(items, weights))
        kept = (torch.rand_like(activation) >= args.dropout) / (1 - args.dropout) if args.dropout else 1.0
        hidden = activation * kept
        negatives, log_expected = self.negatives(items)
        loss, delta, of_positives, of_others = self.loss_and_gradients(hidden, items, negatives, log_expected)
        flat = items.reshape(-1)
        ids = torch.cat([flat, negatives])
        chosen = self.merge(ids)
        terms = torch.cat([(of_positives.unsqueeze(2) * hidden.unsqueeze(1)).reshape(-1, hidden.shape[1]), of_others.t() @ hidden])
        self.outputs.update(ids, chosen, torch.zeros_like(terms).index_add_(0, chosen, terms), rate, number)
        terms = torch.cat([of_positives.reshape(-1), of_others.sum(0)]).unsqueeze(1)
        self.biases.update(ids, chosen, torch.zeros_like(terms).index_add_(0, chosen, terms), rate, number)
        delta = delta * kept * (1 - activation * activation)
        one = torch.zeros(1, dtype=torch.int64, device=items.device)
        self.hidden_bias.update(one, one, delta.sum(0, keepdim=True), rate, number)
        chosen = self.merge(flat)
        terms = (weights.unsqueeze(2) * delta.unsqueeze(1)).reshape(-1, delta.shape[1])
        self.inputs.update(flat, chosen, torch.zeros_like(terms).index_add_(0, chosen, terms), rate, number)
        return loss

    def lists(self, known, count, block=1 << 18, users=4096):
        """[users x count] best items of all, without those of known [users x n], as NumPy."""
        found = [self._lists(part, count, block) for part in known.split(users)]
        return torch.cat(found).cpu().numpy()

    def _lists(self, known, count, block):
        hidden = torch.tanh(self.units(known, self.weights(known)))
        seen, order = known.reshape(-1).sort()
        owner = order // known.shape[1]
        best, numbers = None, None
        for first in range(0, len(self.idf), block):
            part = slice(first, min(len(self.idf), first + block))
            scores = hidden @ self.outputs.value[part].t() + self.biases.value[part].t()
            low, high = torch.searchsorted(seen, torch.tensor([first, part.stop], device=seen.device)).tolist()
            scores[owner[low:high], seen[low:high] - first] = -torch.inf
            value, at = scores.topk(min(count, scores.shape[1]), dim=1)
            at = at + first
            if best is not None:
                value, chosen = torch.cat([best, value], 1).topk(min(count, best.shape[1] + value.shape[1]), dim=1)
                at = torch.cat([numbers, at], 1).gather(1, chosen)
            best, numbers = value, at
        return numbers


def check():
    """The largest difference of the gradients by hand from those of autograd, relative to the largest of them."""
    torch.manual_seed(int(time.time()))
    args = argparse.Namespace(hidden=6, rule="sgd", start=0, seed=3, popular=40, uniform=30, denoising=0, dropout=0)
    items = torch.stack([torch.randperm(50)[:7] for _ in range(9)])
    model = Autoencoder(torch.bincount(items.reshape(-1), minlength=50), 9, args, torch.device("cpu"), torch.float64)
    leaves = [table.value.clone().requires_grad_(True) for table in (model.inputs, model.outputs, model.biases, model.hidden_bias)]
    state = torch.get_rng_state()
    negatives, log_expected = model.negatives(items)
    inputs, outputs, biases, hidden_bias = leaves
    hidden = torch.tanh((inputs[items] * model.weights(items).unsqueeze(2)).sum(1) + hidden_bias)
    loss = 0
    for user, own in enumerate(items):
        z = outputs @ hidden[user] + biases.squeeze(1)
        free = [place for place, item in enumerate(negatives.tolist()) if item not in own.tolist()]
        logits = torch.cat([z[own], z[negatives[free]] - log_expected[free]])
        loss = loss + (torch.logsumexp(logits, 0) - z[own].mean()) / len(items)
    loss.backward()
    before = [leaf.detach().clone() for leaf in leaves]
    torch.set_rng_state(state)
    with torch.no_grad():
        found = model.step(items, 1.0, 1)
    after = [table.value for table in (model.inputs, model.outputs, model.biases, model.hidden_bias)]
    errors = [float((old - new - leaf.grad).abs().max() / leaf.grad.abs().max()) for old, new, leaf in zip(before, after, leaves)]
    return max([*errors, abs(float(found - loss.detach()) / float(loss.detach()))])


def train(model, data, args, device):
    """[{seconds, recall, epochs}]: of training alone, without evaluations."""
    train_items, known, wanted = data
    curve, seconds, step, users = [], 0.0, 0, len(train_items)
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    batch = min(args.batch, users)
    growth = 100 ** (1 / max(1, args.points - 1))
    due, order, at = args.seconds / 100, torch.randperm(users, device=device), 0
    model.step(train_items[order[:batch]].long(), 0.0, 1)  # warms up: libraries are loaded; a rate of 0 changes no weight
    wait()
    started = time.perf_counter()
    while True:
        if at + batch > users:
            order, at = torch.randperm(users, device=device), 0
        progress = min(1.0, (seconds + time.perf_counter() - started) / args.seconds)
        rate = args.rate * (0.5 + 0.5 * math.cos(math.pi * progress) if args.schedule == "Cosine" else 1.0)
        model.step(train_items[order[at:at + batch]].long(), rate, step + 1)
        at, step = at + batch, step + 1
        if step % 8 == 0:
            wait()
        if seconds + time.perf_counter() - started >= due:
            wait()
            seconds += time.perf_counter() - started
            lists = model.lists(known, args.top)
            curve.append({"seconds": round(seconds, 4), "recall": planted_catalogue.recall_of(lists, wanted),
                          "epochs": round(step * batch / users, 4)})
            print(json.dumps(curve[-1]), flush=True)
            if seconds >= args.seconds:
                return curve
            while due <= seconds:
                due = min(args.seconds, due * growth) if due < args.seconds else args.seconds * 2
            started = time.perf_counter()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare gradients with those of autograd, and end")
    parser.add_argument("--data", type=pathlib.Path, help="folder of train.npy, known.npy and wanted.npy")
    parser.add_argument("--out", type=pathlib.Path, help="JSON file of the result")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--precision", default="tf32", choices=("fp32", "tf32"))
    parser.add_argument("--threads", type=int, default=0, help="of the CPU; 0: as PyTorch has it [0]")
    for name, kind, default in (("items", int, 0), ("hidden", int, 256), ("batch", int, 1024), ("top", int, 100), ("points", int, 25),
                                ("seed", int, 1), ("popular", int, 1024), ("uniform", int, 1024), ("seconds", float, 60.0),
                                ("rate", float, 0.01), ("denoising", float, 0.5), ("dropout", float, 0.0), ("start", float, 0.0)):
        parser.add_argument(f"--{name}", type=kind, default=default, help="[%(default)s]")
    parser.add_argument("--rule", default="adam", choices=("adam", "adagrad", "sgd"), help="adagrad: one sum a row [%(default)s]")
    parser.add_argument("--schedule", default="Cosine", choices=("Constant", "Cosine"), help="over the seconds [%(default)s]")
    return parser.parse_args()


def main():
    args = arguments()
    error = check()
    if not error < 1e-10:
        sys.exit(f"sampled_softmax: gradients differ from autograd's by {error}")
    if args.check:
        print(f"gradients differ from autograd's by {error:.1e}")
        return
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.set_float32_matmul_precision("high" if args.precision == "tf32" else "highest")
    device = torch.device(args.device)
    train_items, known = (torch.from_numpy(np.load(args.data / f"{name}.npy")).to(device) for name in ("train", "known"))
    wanted = np.load(args.data / "wanted.npy")
    counts = torch.zeros(args.items, dtype=torch.int64, device=device)
    for part in train_items.split(1 << 18):
        counts += torch.bincount(part.reshape(-1), minlength=args.items)
    with torch.no_grad():
        model = Autoencoder(counts, len(train_items), args, device)
        curve = train(model, (train_items, known.long(), wanted), args, device)
    facts = {"version": f"PyTorch {torch.__version__}", "device": args.device, "checked": error,
             "device_name": torch.cuda.get_device_name() if args.device == "cuda" else f"{torch.get_num_threads()} threads"}
    if args.device == "cuda":
        facts["peak_memory_GB"] = round(torch.cuda.max_memory_allocated() * 1e-9, 2)
    args.out.write_text(json.dumps({"curve": curve, "facts": facts}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

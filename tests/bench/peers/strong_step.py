# SPDX-License-Identifier: Apache-2.0
"""A training step without autograd, for pytorch_strong.py: the output layer in blocks of units, gradients by hand,
bf16 operands beside float32 weights, update rules in Triton. With Adam the rows of the input weights are either all
updated in every step, or only those that a batch touches, after the steps that they have missed (lazy); the results are
the same.

Tried and slower on an H200: the update inside a Triton kernel for the weight gradient (7.6 ms where cuBLAS and the
separate update take 4.9 ms on shop500k)."""
import dataclasses

import torch
import torch.nn.functional as F
import triton

import gpu_common
import triton_kernels as kernels

VARIANTS = ["blocks", "overlap", "fused"]
ROWS = ["lazy", "all"]
ALIGNMENT = 128  # of the number of output units
PART = 4096  # neighbours whose largest logit is found by a program
LONGEST = 1 << 16  # steps that a run may make
SEVERAL = 32  # positives of a program


@dataclasses.dataclass
class Entries:
    """A batch as a data loader's workers would hand it over: items by example, and sorted by item."""

    items: torch.Tensor  # [batch, nonzeros]
    rows: torch.Tensor  # [entries] example of each entry, sorted by item
    touched: torch.Tensor  # [capacity] the different items, padded with `width`
    begin: torch.Tensor  # [capacity + 1] where each one's entries begin

    @staticmethod
    def of_batches(batches, width):
        """All with room for the largest one's number of different items."""
        capacity = max(len(torch.unique(items)) for items in batches)
        return [Entries.of(items, width, capacity) for items in batches]

    @staticmethod
    def of(items, width, capacity):
        flat, order = torch.sort(items.reshape(-1), stable=True)
        different, counts = torch.unique_consecutive(flat, return_counts=True)
        touched = torch.full((capacity,), width, dtype=torch.int64, device=items.device)
        touched[: len(different)] = different
        begin = torch.full((capacity + 1,), len(flat), dtype=torch.int64, device=items.device)
        begin[0] = 0
        begin[1 : len(different) + 1] = torch.cumsum(counts, 0)
        return Entries(items, torch.div(order, items.shape[1], rounding_mode="floor"), touched, begin)

    def clone(self):
        return Entries(*(getattr(self, field.name).clone() for field in dataclasses.fields(self)))

    def copy_(self, other):
        for field in dataclasses.fields(self):
            getattr(self, field.name).copy_(getattr(other, field.name))


class Parameter:
    """A float32 array with its optimizer's state, and a copy in the products' type."""

    def __init__(self, value, is_adam, operand):
        self.value = value
        self.copy = value.to(operand) if operand is not None and operand != torch.float32 else None
        self.mean = torch.zeros_like(value) if is_adam else None
        self.square = torch.zeros_like(value) if is_adam else None

    @property
    def operand(self):
        return self.value if self.copy is None else self.copy

    def __getitem__(self, part):
        """The same for some rows, sharing memory."""
        piece = object.__new__(Parameter)
        for name in ("value", "copy", "mean", "square"):
            whole = getattr(self, name)
            setattr(piece, name, None if whole is None else whole[part])
        return piece

    def arrays(self):
        """value, copy, mean and square; absent ones stand for themselves as the value, which no kernel then reads."""
        return [self.value if a is None else a for a in (self.value, self.copy, self.mean, self.square)]


def product(a, b):
    """a b in float32, whatever the operands are."""
    if a.dtype == torch.float32:
        return a @ b
    if a.is_cuda:
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()


class StrongStep:
    """step(entries) trains on a batch; the last loss is in .loss (a tensor on the device)."""

    def __init__(self, shape, batch, variant, precision, optimizer, block, dropout, device, rows="lazy"):
        self.shape, self.batch, self.variant, self.block = shape, batch, variant, block
        self.dropout, self.device = dropout, device
        self.is_adam = optimizer == "Adam"
        self.is_lazy = self.is_adam and rows == "lazy"
        self.rate = gpu_common.ADAM_RATE if self.is_adam else gpu_common.SGD_RATE
        self.operand = torch.bfloat16 if precision == "bf16" else torch.float32
        weights, biases = gpu_common.make_weights(shape, device)
        # Rows of the deltas are then aligned. Units that are added have activation, delta and cost 0.
        self.units = triton.cdiv(shape.width, ALIGNMENT) * ALIGNMENT
        if self.units > shape.width:
            added = self.units - shape.width
            weights[-1] = F.pad(weights[-1], (0, 0, 0, added))
            biases[-1] = F.pad(biases[-1], (0, added), value=-1e9)
        self.weights, self.biases = [], [Parameter(b, self.is_adam, None) for b in biases]
        while weights:  # one after the other, so that no second set of them is in memory
            self.weights.append(Parameter(weights.pop(0), self.is_adam, self.operand))
        self._make_buffers()

    def _make_buffers(self):
        zeros = lambda *size: torch.zeros(*size, device=self.device)  # noqa: E731
        buffers = 2 if self.variant == "overlap" else 1
        self.block = min(self.block or max(32768, 2**24 // self.shape.hidden[-1]), self.units)
        if self.block % ALIGNMENT:
            raise ValueError(f"a block must have a multiple of {ALIGNMENT} units")
        # A row's SoftMax is known when all of its logits are there.
        held = self.units if self.shape.softmax else self.block
        self.x = torch.empty(self.batch * held, dtype=self.operand, device=self.device)
        self.block_gradients = [torch.empty(self.block, self.shape.hidden[-1], dtype=self.operand, device=self.device)
                                for _ in range(buffers)]
        self.cost = zeros(max(65536, triton.cdiv(self.block, 64) * triton.cdiv(self.batch, 64)))
        self.positive_cost = zeros(self.batch * triton.cdiv(self.shape.nonzeros, SEVERAL))
        self.output_bias_gradient = zeros(self.units)
        tiles = triton.cdiv(self.batch, 128) * triton.cdiv(self.shape.hidden[-1], 256)
        self.splits = triton.next_power_of_2(triton.cdiv(128, tiles))
        self.loss = zeros(1)
        self.now = torch.zeros(1, dtype=torch.int64, device=self.device)
        times = torch.arange(LONGEST, dtype=torch.float64, device=self.device).unsqueeze(1)
        betas = torch.tensor(gpu_common.BETAS, dtype=torch.float64, device=self.device)
        self.corrections = (1.0 - betas**times).float()  # of every step
        self.correction = zeros(2)
        self.sums, self.slot, self.seen = None, None, None
        if self.is_lazy:
            self.seen = torch.zeros(self.shape.width, dtype=torch.int64, device=self.device)
        elif self.is_adam:
            self.slot = torch.empty(self.shape.width + 1, dtype=torch.int32, device=self.device)
        self.parts = -(-self.block // (128 if self.variant == "fused" else PART))  # of a block of logits
        if self.shape.softmax:
            blocks = -(-self.units // self.block)
            self.largest = torch.full((blocks * self.parts, self.batch), float("-inf"), device=self.device)
            self.parts_sums = zeros(blocks * self.parts, self.batch)
        self.side = torch.cuda.Stream() if self.variant == "overlap" else None

    def _rule(self):
        return {"is_adam": self.is_adam, "beta1": gpu_common.BETAS[0], "beta2": gpu_common.BETAS[1],
                "epsilon": gpu_common.EPSILON}

    def _update(self, parameter, gradient):
        count, block = parameter.value.numel(), 1024
        kernels.update[(triton.cdiv(count, block),)](
            *parameter.arrays(), gradient, self.correction, 1.0 / self.batch, self.rate, count,
            has_copy=parameter.copy is not None, block=block, **self._rule())

    def _forward(self, entries):
        """Activations of the hidden layers, in the operands' type."""
        width, p = self.shape.hidden[0], self.dropout
        h = torch.empty(self.batch, width, dtype=self.operand, device=self.device)
        block = min(256, triton.next_power_of_2(width))
        kernels.gather_sum[(self.batch, triton.cdiv(width, block))](
            entries.items, self.weights[0].operand, self.biases[0].value, h, width, self.shape.nonzeros, 8, block,
            num_warps=2)
        layers = [F.dropout(h, p) if p else h]
        for weight, bias in zip(self.weights[1:-1], self.biases[1:-1]):
            h = torch.relu_(torch.addmm(bias.value.to(self.operand), layers[-1], weight.operand.t()))
            layers.append(F.dropout(h, p) if p else h)
        return layers

    def _deltas_of_block(self, h, entries, first, last):
        """x = sigmoid(h w^T + b) - target for the units first..last; the loss and bias gradients grow."""
        columns, weight, bias = last - first, self.weights[-1][first:last], self.biases[-1].value[first:last]
        x = self.x[: self.batch * columns].view(self.batch, columns)
        bias_gradient = self.output_bias_gradient[first:last]
        if self.variant == "fused":
            kernels.forward_delta[(triton.cdiv(self.batch, 128), triton.cdiv(columns, 128))](
                h, weight.operand, bias, x, self.cost, bias_gradient, self.batch, columns, h.shape[1], 128, 128,
                64 if self.operand == torch.bfloat16 else 32, num_warps=8, num_stages=3)
        else:
            torch.addmm(bias.to(self.operand), h, weight.operand.t(), out=x)
            rows = 128 if self.batch >= 512 else 16
            kernels.delta[(triton.cdiv(columns, 512), triton.cdiv(self.batch, rows))](
                x, self.cost, bias_gradient, self.batch, columns, rows, 4, 512, num_warps=8)
        entries_of_batch = entries.items.numel()
        kernels.subtract_positives[(triton.cdiv(entries_of_batch, 1024),)](
            entries.items, x, first, columns, entries_of_batch, self.shape.nonzeros, 1024)
        return x

    def _logits_of_block(self, h, first, last, number):
        """h w^T + b for the units first..last, which stay; their largest in every part of a row, and the sums."""
        columns, weight, bias = last - first, self.weights[-1][first:last], self.biases[-1].value[first:last]
        x = self.x[self.batch * first : self.batch * last].view(self.batch, columns)
        own = slice(number * self.parts, (number + 1) * self.parts)
        if self.variant == "fused":
            kernels.forward_statistics[(triton.cdiv(self.batch, 128), triton.cdiv(columns, 128))](
                h, weight.operand, bias, x, self.largest[own], self.parts_sums[own], self.batch, columns, h.shape[1], 128,
                128, 64 if self.operand == torch.bfloat16 else 32, num_warps=8, num_stages=3)
        else:
            torch.addmm(bias.to(self.operand), h, weight.operand.t(), out=x)
            kernels.statistics[(triton.cdiv(columns, PART), self.batch)](
                x, self.largest[own], self.parts_sums[own], self.batch, columns, PART)

    def _softmax_deltas_of_block(self, total, entries, first, last):
        """x = nonzeros softmax - target for the units first..last; the bias gradients grow."""
        columns, count = last - first, entries.items.numel()
        x = self.x[self.batch * first : self.batch * last].view(self.batch, columns)
        rows = 128 if self.batch >= 512 else 16
        kernels.softmax_delta[(triton.cdiv(columns, 512), triton.cdiv(self.batch, rows))](
            x, total, self.output_bias_gradient[first:last], float(self.shape.nonzeros), self.batch, columns, rows, 4, 512,
            num_warps=8)
        kernels.subtract_positives[(triton.cdiv(count, 1024),)](
            entries.items, x, first, columns, count, self.shape.nonzeros, 1024)
        return x

    def _softmax_totals(self, h):
        """Every row's logarithm of the sum of exp(logit); its mean over the batch becomes the first part of the loss."""
        for number, first in enumerate(range(0, self.units, self.block)):
            self._logits_of_block(h, first, min(self.units, first + self.block), number)
        top = self.largest.max(0).values
        total = top + torch.log((self.parts_sums * torch.exp(self.largest - top)).sum(0))
        self.cost[:1] = total.sum() * self.shape.nonzeros
        return total

    def _update_block(self, x, h, first, last, number):
        weight = self.weights[-1][first:last]
        if self.operand == torch.float32 and not self.is_adam:
            weight.value.addmm_(x.t(), h, alpha=-self.rate / self.batch)
            return
        main = torch.cuda.current_stream() if self.side else None
        gradient = self.block_gradients[number % len(self.block_gradients)][: last - first]
        if self.side and number >= 2:
            main.wait_event(self.updated[number - 2])
        torch.mm(x.t(), h, out=gradient)
        if not self.side:
            self._update(weight, gradient)
            return
        self.side.wait_event(main.record_event())
        with torch.cuda.stream(self.side):
            self._update(weight, gradient)
            self.updated.append(self.side.record_event())

    def _output_layer(self, h, entries):
        """Forward, loss, gradient of h, and the update of the output weights, block by block."""
        self.cost.zero_()
        self.output_bias_gradient.zero_()
        self.updated = []
        weight, bias = self.weights[-1].operand, self.biases[-1]
        kernels.positive_logits[(self.batch, triton.cdiv(self.shape.nonzeros, SEVERAL))](
            entries.items, h, weight, bias.value, self.positive_cost, self.output_bias_gradient, h.shape[1],
            self.shape.nonzeros, SEVERAL, 128)
        below = torch.zeros(self.splits, *h.shape, device=self.device)
        total = self._softmax_totals(h) if self.shape.softmax else None
        for number, first in enumerate(range(0, self.units, self.block)):
            last = min(self.units, first + self.block)
            if total is not None:
                x = self._softmax_deltas_of_block(total, entries, first, last)
            else:
                x = self._deltas_of_block(h, entries, first, last)
            self._add_input_delta(below, x, weight[first:last])
            self._update_block(x, h, first, last, number)
        self._update(bias, self.output_bias_gradient)
        if self.updated:
            torch.cuda.current_stream().wait_event(self.updated[-1])
        self.loss.copy_((self.cost.sum() + self.positive_cost.sum()) / self.batch)
        return below.sum(0)

    def _add_input_delta(self, below, x, weight):
        """below += x weight, the sum over the block's units in several parts: few units above leave the GPU idle."""
        depth = x.shape[1] // self.splits
        x = x.view(self.batch, self.splits, depth).transpose(0, 1)
        weight = weight.view(self.splits, depth, -1)
        if self.operand == torch.float32:
            below.baddbmm_(x, weight)
        elif x.is_cuda:
            below += torch.bmm(x, weight, out_dtype=torch.float32)
        else:
            below += torch.bmm(x.float(), weight.float())

    def catch_up(self, touched):
        """Puts these rows of the input weights through the steps that they have missed."""
        if not self.is_lazy:
            return
        width, weight, rule = self.shape.hidden[0], self.weights[0], self._rule()
        del rule["is_adam"]
        block = min(256, triton.next_power_of_2(width))
        kernels.catch_up[(touched.numel(), triton.cdiv(width, block))](
            touched, self.seen, self.now, self.corrections, *weight.arrays(), self.shape.width, self.rate, width,
            has_copy=weight.copy is not None, block=block, num_warps=2, **rule)

    def _lazy_input_layer(self, delta, entries):
        width, weight, rule = self.shape.hidden[0], self.weights[0], self._rule()
        del rule["is_adam"]
        block = min(256, triton.next_power_of_2(width))
        kernels.touched_rows_adam[(entries.touched.numel(), triton.cdiv(width, block))](
            entries.touched, entries.begin, entries.rows, delta, *weight.arrays(), self.seen, self.now, self.correction,
            1.0 / self.batch, self.rate, width, has_copy=weight.copy is not None, unroll=8, block=block, num_warps=2,
            **rule)

    def _input_layer(self, delta, entries):
        if self.is_lazy:
            self._lazy_input_layer(delta, entries)
            return
        width, weight, count = self.shape.hidden[0], self.weights[0], entries.touched.numel()
        if self.is_adam and self.sums is None:
            self.sums = torch.empty(count, width, device=self.device)
            self.ranks = torch.arange(count, dtype=torch.int32, device=self.device)
        block = min(256, triton.next_power_of_2(width))
        kernels.touched_rows[(count, triton.cdiv(width, block))](
            entries.touched, entries.begin, entries.rows, delta, weight.value, weight.operand,
            weight.value if self.sums is None else self.sums, 1.0 / self.batch, self.rate, width, self.is_adam,
            weight.copy is not None, 8, block, num_warps=2)
        if not self.is_adam:
            return
        self.slot.fill_(-1)
        self.slot.scatter_(0, entries.touched, self.ranks)
        rule = self._rule()
        del rule["is_adam"]
        count = weight.value.numel()
        kernels.update_input_adam[(triton.cdiv(count, 1024),)](
            *weight.arrays(), self.sums, self.slot, self.correction, 1.0 / self.batch, self.rate, count, width,
            has_copy=weight.copy is not None, block=1024, **rule)

    def __call__(self, entries):
        self.now += 1
        self.correction.copy_(self.corrections[self.now].view(-1))
        self.catch_up(entries.touched)
        layers = self._forward(entries)
        below = self._output_layer(layers[-1], entries)
        scale = 1.0 / (1.0 - self.dropout)
        for i in range(len(layers) - 1, -1, -1):
            # A dropped unit's activation is 0, so that its sign stands for both derivatives.
            delta = torch.where(layers[i] > 0, below * scale if self.dropout else below, 0.0)
            bias_gradient = delta.sum(0)
            delta = delta.to(self.operand)
            if i > 0:
                below = product(delta, self.weights[i].operand)
                self._update(self.weights[i], product(delta.t(), layers[i - 1]))
            else:
                self._input_layer(delta, entries)
            self._update(self.biases[i], bias_gradient)


class GraphedStep:
    """The same step as one CUDA graph over a batch's buffers."""

    def __init__(self, step, entries):
        self.step, self.entries = step, entries.clone()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            step(self.entries)  # compiles the kernels and lets the libraries allocate
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            step(self.entries)

    def __call__(self, entries):
        self.entries.copy_(entries)
        self.graph.replay()

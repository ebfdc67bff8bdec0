# SPDX-License-Identifier: Apache-2.0
"""Triton kernels of pytorch_strong.py: what PyTorch has no single operation for. Sizes are checked by the caller."""
import triton
import triton.language as tl


@triton.jit
def sigmoid_parts(x):
    """p = 1 / (1 + exp(-x)), and softplus(x) = log(1 + exp(x)) as a + log(b) with b in (1, 2], from one exponential.
    Logarithms of products of a few b cost less than one of each."""
    e = tl.exp(-tl.abs(x))
    b = 1.0 + e
    r = 1.0 / b
    return tl.where(x >= 0, r, e * r), tl.maximum(x, 0.0), b


@triton.jit
def adam(w, m, v, g, correction, rate, beta1: tl.constexpr, beta2: tl.constexpr, epsilon: tl.constexpr):
    """torch.optim.Adam's rule; `correction` points to 1 - beta1^t and 1 - beta2^t."""
    m = beta1 * m + (1.0 - beta1) * g
    v = beta2 * v + (1.0 - beta2) * g * g
    denominator = tl.sqrt(v) / tl.sqrt(tl.load(correction + 1)) + epsilon
    return w - rate / tl.load(correction) * m / denominator, m, v


@triton.jit
def gather_sum(items, weight, bias, out, width: tl.constexpr, nonzeros: tl.constexpr, unroll: tl.constexpr,
               block: tl.constexpr):
    """out[r] = relu(sum of weight[items[r]] + bias): a program a row and a block of units."""
    row = tl.program_id(0).to(tl.int64)
    unit = tl.program_id(1) * block + tl.arange(0, block)
    total = tl.zeros([unroll, block], tl.float32)
    for k in range(0, nonzeros, unroll):
        entry = k + tl.arange(0, unroll)
        item = tl.load(items + row * nonzeros + entry, mask=entry < nonzeros, other=0)
        inside = (entry < nonzeros)[:, None] & (unit < width)[None, :]
        total += tl.load(weight + item[:, None] * width + unit[None, :], mask=inside, other=0.0).to(tl.float32)
    value = tl.sum(total, axis=0) + tl.load(bias + unit, mask=unit < width, other=0.0)
    tl.store(out + row * width + unit, tl.maximum(value, 0.0).to(out.dtype.element_ty), mask=unit < width)


@triton.jit
def positive_logits(items, h, weight, bias, loss, bias_gradient, width: tl.constexpr, nonzeros: tl.constexpr,
                    several: tl.constexpr, block: tl.constexpr):
    """loss[r, part] = -sum of the logits of `several` items of row r; one off the bias gradient for each."""
    row = tl.program_id(0).to(tl.int64)
    entry = tl.program_id(1) * several + tl.arange(0, several)
    there = entry < nonzeros
    item = tl.load(items + row * nonzeros + entry, mask=there, other=0)
    total = tl.zeros([several, block], tl.float32)
    for first in range(0, width, block):
        unit = first + tl.arange(0, block)
        x = tl.load(h + row * width + unit, mask=unit < width, other=0.0).to(tl.float32)
        inside = there[:, None] & (unit < width)[None, :]
        y = tl.load(weight + item[:, None] * width + unit[None, :], mask=inside, other=0.0).to(tl.float32)
        total += x[None, :] * y
    logits = tl.sum(total, axis=1) + tl.load(bias + item, mask=there, other=0.0)
    tl.atomic_add(bias_gradient + item, tl.full([several], -1.0, tl.float32), mask=there)
    place = loss + row * tl.num_programs(1) + tl.program_id(1)
    tl.store(place, -tl.sum(tl.where(there, logits, 0.0), axis=0))


@triton.jit
def delta(x, loss, bias_gradient, rows, columns, rows_a_program: tl.constexpr, block_rows: tl.constexpr,
          block_columns: tl.constexpr):
    """x = sigmoid(x) in place [rows, columns]; adds softplus to loss[program] and column sums to bias_gradient.
    At most 64 blocks of rows a program, so that the products stay finite."""
    column = tl.program_id(0) * block_columns + tl.arange(0, block_columns)
    sums = tl.zeros([block_rows, block_columns], tl.float32)
    cost = tl.zeros([block_rows, block_columns], tl.float32)
    factors = tl.full([block_rows, block_columns], 1.0, tl.float32)
    for first in range(0, rows_a_program, block_rows):
        row = tl.program_id(1) * rows_a_program + first + tl.arange(0, block_rows)
        inside = (row < rows)[:, None] & (column < columns)[None, :]
        place = x + row.to(tl.int64)[:, None] * columns + column[None, :]
        p, a, b = sigmoid_parts(tl.load(place, mask=inside, other=float("-inf")).to(tl.float32))
        tl.store(place, p.to(x.dtype.element_ty), mask=inside)
        sums += p
        cost += a
        factors *= b
    tl.atomic_add(bias_gradient + column, tl.sum(sums, axis=0), mask=column < columns)
    place = loss + tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    tl.store(place, tl.load(place) + tl.sum(tl.sum(cost + tl.log(factors), axis=0), axis=0))


@triton.jit
def subtract_positives(items, x, first, columns, entries, nonzeros: tl.constexpr, block: tl.constexpr):
    """One off x [rows, columns], which holds the columns from `first`, at every item of each row."""
    entry = tl.program_id(0) * block + tl.arange(0, block)
    item = tl.load(items + entry, mask=entry < entries, other=-1)
    inside = (item >= first) & (item < first + columns)
    place = x + (entry // nonzeros).to(tl.int64) * columns + (item - first)
    tl.store(place, (tl.load(place, mask=inside, other=0.0).to(tl.float32) - 1.0).to(x.dtype.element_ty), mask=inside)


@triton.jit
def update(w, copy, m, v, g, correction, scale, rate, count, is_adam: tl.constexpr, has_copy: tl.constexpr,
           beta1: tl.constexpr, beta2: tl.constexpr, epsilon: tl.constexpr, block: tl.constexpr):
    """One step of the optimizer on `count` weights, and their copy in bf16."""
    i = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = i < count
    value = tl.load(w + i, mask=inside)
    gradient = tl.load(g + i, mask=inside).to(tl.float32) * scale
    if is_adam:
        value, mean, square = adam(value, tl.load(m + i, mask=inside), tl.load(v + i, mask=inside), gradient,
                                   correction, rate, beta1, beta2, epsilon)
        tl.store(m + i, mean, mask=inside)
        tl.store(v + i, square, mask=inside)
    else:
        value -= rate * gradient
    tl.store(w + i, value, mask=inside)
    if has_copy:
        tl.store(copy + i, value.to(copy.dtype.element_ty), mask=inside)


@triton.jit
def catch_up(touched, seen, now, corrections, w, copy, m, v, items, rate, width: tl.constexpr, has_copy: tl.constexpr,
             beta1: tl.constexpr, beta2: tl.constexpr, epsilon: tl.constexpr, block: tl.constexpr):
    """Puts the touched rows of the input weights through Adam's steps after seen[row] and before now, whose gradient
    was zero: the same as if all rows had been visited in every step. corrections: `adam`'s pair for each step."""
    item = tl.load(touched + tl.program_id(0).to(tl.int64))
    unit = tl.program_id(1) * block + tl.arange(0, block)
    if item < items:
        done = tl.load(seen + item)
        last = tl.load(now)
        # A row that was never touched has no state that could move it.
        if (done > 0) & (done + 1 < last):
            inside = unit < width
            place = item * width + unit
            value = tl.load(w + place, mask=inside, other=0.0)
            mean = tl.load(m + place, mask=inside, other=0.0)
            square = tl.load(v + place, mask=inside, other=0.0)
            for step in range(done + 1, last):
                value, mean, square = adam(value, mean, square, 0.0, corrections + 2 * step, rate, beta1, beta2, epsilon)
            tl.store(w + place, value, mask=inside)
            tl.store(m + place, mean, mask=inside)
            tl.store(v + place, square, mask=inside)
            if has_copy:
                tl.store(copy + place, value.to(copy.dtype.element_ty), mask=inside)


@triton.jit
def touched_rows_adam(touched, begin, rows, upper, w, copy, m, v, seen, now, correction, scale, rate,
                      width: tl.constexpr, has_copy: tl.constexpr, beta1: tl.constexpr, beta2: tl.constexpr,
                      epsilon: tl.constexpr, unroll: tl.constexpr, block: tl.constexpr):
    """Adam's step with the sums of upper[rows] for every touched item, which has caught up; it has seen step `now`."""
    rank = tl.program_id(0).to(tl.int64)
    unit = tl.program_id(1) * block + tl.arange(0, block)
    first = tl.load(begin + rank)
    last = tl.load(begin + rank + 1)
    if first < last:
        item = tl.load(touched + rank)
        inside = unit < width
        place = item * width + unit
        total = rows_sum(first, last, rows, upper, unit, width, unroll, block)
        value, mean, square = adam(tl.load(w + place, mask=inside, other=0.0), tl.load(m + place, mask=inside, other=0.0),
                                   tl.load(v + place, mask=inside, other=0.0), total * scale, correction, rate, beta1,
                                   beta2, epsilon)
        tl.store(w + place, value, mask=inside)
        tl.store(m + place, mean, mask=inside)
        tl.store(v + place, square, mask=inside)
        if has_copy:
            tl.store(copy + place, value.to(copy.dtype.element_ty), mask=inside)
        if tl.program_id(1) == 0:
            tl.store(seen + item, tl.load(now))


@triton.jit
def rows_sum(first, last, rows, upper, unit, width: tl.constexpr, unroll: tl.constexpr, block: tl.constexpr):
    """The sum of upper[rows[first:last], unit]."""
    parts = tl.zeros([unroll, block], tl.float32)
    for k in range(first, last, unroll):
        entry = k + tl.arange(0, unroll)
        row = tl.load(rows + entry, mask=entry < last, other=0)
        inside = (entry < last)[:, None] & (unit < width)[None, :]
        parts += tl.load(upper + row[:, None] * width + unit[None, :], mask=inside, other=0.0).to(tl.float32)
    return tl.sum(parts, axis=0)


@triton.jit
def touched_rows(touched, begin, rows, upper, w, copy, sums, scale, rate, width: tl.constexpr, is_adam: tl.constexpr,
                 has_copy: tl.constexpr, unroll: tl.constexpr, block: tl.constexpr):
    """Sums upper[rows] of every touched item; stores the sum for Adam, applies it for SGD."""
    rank = tl.program_id(0).to(tl.int64)
    unit = tl.program_id(1) * block + tl.arange(0, block)
    first = tl.load(begin + rank)
    last = tl.load(begin + rank + 1)
    if first < last:
        total = rows_sum(first, last, rows, upper, unit, width, unroll, block)
        if is_adam:
            tl.store(sums + rank * width + unit, total, mask=unit < width)
        else:
            place = tl.load(touched + rank) * width + unit
            value = tl.load(w + place, mask=unit < width) - rate * scale * total
            tl.store(w + place, value, mask=unit < width)
            if has_copy:
                tl.store(copy + place, value.to(copy.dtype.element_ty), mask=unit < width)


@triton.jit
def update_input_adam(w, copy, m, v, sums, slot, correction, scale, rate, count, width: tl.constexpr,
                      has_copy: tl.constexpr, beta1: tl.constexpr, beta2: tl.constexpr, epsilon: tl.constexpr,
                      block: tl.constexpr):
    """Adam on all rows of the input weights; rows without a slot have gradient zero. `block` divides `width` or
    is a multiple of it, so that a program reads few slots."""
    i = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = i < count
    place = tl.load(slot + i // width, mask=inside, other=-1).to(tl.int64)
    gradient = tl.load(sums + place * width + i % width, mask=place >= 0, other=0.0) * scale
    value, mean, square = adam(tl.load(w + i, mask=inside), tl.load(m + i, mask=inside),
                               tl.load(v + i, mask=inside), gradient, correction, rate, beta1, beta2, epsilon)
    tl.store(w + i, value, mask=inside)
    tl.store(m + i, mean, mask=inside)
    tl.store(v + i, square, mask=inside)
    if has_copy:
        tl.store(copy + i, value.to(copy.dtype.element_ty), mask=inside)


@triton.jit
def forward_delta(h, w, bias, x, loss, bias_gradient, rows, columns, depth: tl.constexpr, block_m: tl.constexpr,
                  block_n: tl.constexpr, block_k: tl.constexpr):
    """x = sigmoid(h w^T + bias) [rows, columns]: the product, the activation, loss and column sums in one kernel."""
    m = tl.program_id(0) * block_m + tl.arange(0, block_m)
    n = tl.program_id(1) * block_n + tl.arange(0, block_n)
    k = tl.arange(0, block_k)
    left = h + m.to(tl.int64)[:, None] * depth + k[None, :]
    right = w + n.to(tl.int64)[None, :] * depth + k[:, None]
    total = tl.zeros([block_m, block_n], tl.float32)
    for _ in range(0, depth, block_k):
        a = tl.load(left, mask=(m < rows)[:, None], other=0.0)
        b = tl.load(right, mask=(n < columns)[None, :], other=0.0)
        total = tl.dot(a, b, total)
        left += block_k
        right += block_k
    total += tl.load(bias + n, mask=n < columns, other=0.0)[None, :]
    p, a, b = sigmoid_parts(total)
    cost = a + tl.log(b)
    inside = (m < rows)[:, None] & (n < columns)[None, :]
    tl.store(x + m.to(tl.int64)[:, None] * columns + n[None, :], p.to(x.dtype.element_ty), mask=inside)
    tl.atomic_add(bias_gradient + n, tl.sum(tl.where(inside, p, 0.0), axis=0), mask=n < columns)
    place = loss + tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    tl.store(place, tl.load(place) + tl.sum(tl.sum(tl.where(inside, cost, 0.0), axis=0), axis=0))


@triton.jit
def statistics(x, largest, sums, rows, columns, block: tl.constexpr):
    """largest and sums [parts, rows] = of `block` neighbours in a row of x [rows, columns] the largest value, and the
    sum of exp(value - largest)."""
    n = tl.program_id(0) * block + tl.arange(0, block)
    row = tl.program_id(1).to(tl.int64)
    value = tl.load(x + row * columns + n, mask=n < columns, other=float("-inf")).to(tl.float32)
    top = tl.max(value, axis=0)
    place = tl.program_id(0).to(tl.int64) * rows + row
    tl.store(largest + place, top)
    tl.store(sums + place, tl.sum(tl.exp(value - top), axis=0))


@triton.jit
def forward_statistics(h, w, bias, x, largest, sums, rows, columns, depth: tl.constexpr, block_m: tl.constexpr,
                       block_n: tl.constexpr, block_k: tl.constexpr):
    """x = h w^T + bias [rows, columns], and `statistics` of every `block_n` neighbours, in one kernel."""
    m = tl.program_id(0) * block_m + tl.arange(0, block_m)
    n = tl.program_id(1) * block_n + tl.arange(0, block_n)
    k = tl.arange(0, block_k)
    left = h + m.to(tl.int64)[:, None] * depth + k[None, :]
    right = w + n.to(tl.int64)[None, :] * depth + k[:, None]
    total = tl.zeros([block_m, block_n], tl.float32)
    for _ in range(0, depth, block_k):
        a = tl.load(left, mask=(m < rows)[:, None], other=0.0)
        b = tl.load(right, mask=(n < columns)[None, :], other=0.0)
        total = tl.dot(a, b, total)
        left += block_k
        right += block_k
    total += tl.load(bias + n, mask=n < columns, other=float("-inf"))[None, :]
    inside = (m < rows)[:, None] & (n < columns)[None, :]
    tl.store(x + m.to(tl.int64)[:, None] * columns + n[None, :], total.to(x.dtype.element_ty), mask=inside)
    top = tl.max(total, axis=1)
    place = tl.program_id(1).to(tl.int64) * rows + m
    tl.store(largest + place, top, mask=m < rows)
    tl.store(sums + place, tl.sum(tl.exp(total - top[:, None]), axis=1), mask=m < rows)


@triton.jit
def softmax_delta(x, total, bias_gradient, count, rows, columns, rows_a_program: tl.constexpr,
                  block_rows: tl.constexpr, block_columns: tl.constexpr):
    """x = count exp(x - total[row]) in place [rows, columns]; adds column sums to bias_gradient."""
    column = tl.program_id(0) * block_columns + tl.arange(0, block_columns)
    sums = tl.zeros([block_rows, block_columns], tl.float32)
    for first in range(0, rows_a_program, block_rows):
        row = tl.program_id(1) * rows_a_program + first + tl.arange(0, block_rows)
        inside = (row < rows)[:, None] & (column < columns)[None, :]
        place = x + row.to(tl.int64)[:, None] * columns + column[None, :]
        lse = tl.load(total + row, mask=row < rows, other=0.0)
        p = count * tl.exp(tl.load(place, mask=inside, other=float("-inf")).to(tl.float32) - lse[:, None])
        tl.store(place, p.to(x.dtype.element_ty), mask=inside)
        sums += p
    tl.atomic_add(bias_gradient + column, tl.sum(sums, axis=0), mask=column < columns)


@triton.jit
def group_maxima(h, w, bias, largest, rows, columns, groups, depth: tl.constexpr, group: tl.constexpr,
                 block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr):
    """largest [rows, groups] = the largest of every `group` neighbours in h w^T + bias, which is never stored."""
    m = tl.program_id(0) * block_m + tl.arange(0, block_m)
    n = tl.program_id(1) * block_n + tl.arange(0, block_n)
    k = tl.arange(0, block_k)
    left = h + m.to(tl.int64)[:, None] * depth + k[None, :]
    right = w + n.to(tl.int64)[None, :] * depth + k[:, None]
    total = tl.zeros([block_m, block_n], tl.float32)
    for _ in range(0, depth, block_k):
        a = tl.load(left, mask=(m < rows)[:, None], other=0.0)
        b = tl.load(right, mask=(n < columns)[None, :], other=0.0)
        total = tl.dot(a, b, total)
        left += block_k
        right += block_k
    total += tl.load(bias + n, mask=n < columns, other=float("-inf")).to(tl.float32)[None, :]
    best = tl.max(tl.reshape(total, [block_m, block_n // group, group]), axis=2)
    g = tl.program_id(1) * (block_n // group) + tl.arange(0, block_n // group)
    place = largest + m.to(tl.int64)[:, None] * groups + g[None, :]
    tl.store(place, best.to(largest.dtype.element_ty), mask=(m < rows)[:, None] & (g < groups)[None, :])


@triton.jit
def group_scores(h, w, bias, chosen, scores, columns, depth: tl.constexpr, group: tl.constexpr):
    """scores [rows, chosen groups, group]: the scores of the items of each row's chosen groups."""
    row = tl.program_id(0).to(tl.int64)
    place = row * tl.num_programs(1) + tl.program_id(1)
    n = tl.load(chosen + place) * group + tl.arange(0, group)
    u = tl.arange(0, depth)
    x = tl.load(h + row * depth + u).to(tl.float32)
    y = tl.load(w + n[:, None] * depth + u[None, :], mask=(n < columns)[:, None], other=0.0).to(tl.float32)
    score = tl.sum(x[None, :] * y, axis=1) + tl.load(bias + n, mask=n < columns, other=float("-inf")).to(tl.float32)
    tl.store(scores + place * group + tl.arange(0, group), score)

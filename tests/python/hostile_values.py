# SPDX-License-Identifier: Apache-2.0
"""Draws arguments for fuzz_binding.py: right ones in all forms that there are, and wrong ones that are right but for one thing."""
import random
import types
import warnings

import numpy as np
import scipy.sparse as sp

import norn
from norn import _core

UNITS = 30
DTYPES = (np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint8, bool, np.float16, complex, object, ">f4", ">i4", "U3", "M8[s]")


class Planted(Exception):
    """What callbacks of the attack raise."""


def with_value(array, place, value):
    array = array.copy()
    with np.errstate(all="ignore"):
        array.flat[place] = np.array(value).astype(array.dtype)
    return array


class Draw:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.spoilt = 0.3  # of all arguments

    def one_of(self, *choices):
        return self.random.choice(choices)

    def some(self, chance):
        return self.random.random() < chance

    def up_to(self, most):
        return self.random.randrange(most + 1)

    # Matrices.

    def matrix(self, units=None, users=None):
        """As fit and recommend take it; of UNITS units unless it is spoilt."""
        users = users or self.one_of(1, 17, 40, 40, 40, 83)
        made = self.csr(units or UNITS, users)
        if self.some(self.spoilt):
            return self.spoilt_matrix(made)
        return self.in_other_form(made) if self.some(0.4) else made

    def csr(self, units, users):
        made = sp.random(users, units, density=self.one_of(0.05, 0.2, 0.6, 1.0), format="csr", random_state=self.up_to(2**31 - 1),
                         dtype=np.float32)
        if self.some(0.7):
            made.data[:] = 1
        made.sort_indices()
        return made

    def in_other_form(self, m):
        """The same in another format, dtype or place; all of them are right."""
        form = self.one_of("coo", "csc", "lil", "dok", "bsr", "array", "dense", "fortran", "int64", "uint32", "turned", "strided", "locked",
                           "swapped", "float64", "bool",
                           "int8", "zeros", "Dataset", "labelled")
        if form in ("coo", "csc", "lil", "dok", "bsr"):
            return m.asformat(form)
        if form in ("float64", "bool", "int8"):
            return m.astype(form)
        if form in ("array", "dense", "fortran"):
            return sp.csr_array(m) if form == "array" else m.toarray(order="F" if form == "fortran" else "C")
        if form in ("Dataset", "labelled"):
            return norn.Dataset(m, feature_labels=[f"unit{u}" for u in range(m.shape[1])] if form == "labelled" else None)
        parts = {"data": m.data, "indices": m.indices, "indptr": m.indptr}
        if form == "zeros" and m.nnz:
            parts["data"] = with_value(m.data, self.up_to(m.nnz - 1), 0)
        elif form == "turned":  # each row backwards, which is not sorted
            order = np.concatenate([np.arange(b, a, -1) - 1 for a, b in zip(m.indptr[:-1], m.indptr[1:])]).astype(int)
            parts["data"], parts["indices"] = m.data[order], m.indices[order]
        for name, array in parts.items():
            if form in ("int64", "uint32") and name != "data":
                parts[name] = array.astype(form)
            elif form == "strided":
                parts[name] = np.repeat(array, 2)[::2]
            elif form == "locked":
                parts[name].flags.writeable = False
            elif form == "swapped":
                parts[name] = array.astype(array.dtype.newbyteorder(">"))
        return of_parts(m.shape, **parts)

    def spoilt_matrix(self, m):
        """With one thing wrong, or two."""
        if self.some(0.15):
            return self.value()
        if self.some(0.15):
            return self.csr(self.one_of(7, UNITS + 1, 5000), self.one_of(1, 39, 41))
        if self.some(0.1):
            shape = self.one_of((0, UNITS), (40, 0), (0, 0), (3, 2**31), (1, 2**40), (2**14, UNITS))
            return sp.csr_matrix(shape, dtype=np.float32)
        parts = {"data": m.data, "indices": m.indices, "indptr": m.indptr}
        for _ in range(self.one_of(1, 1, 1, 2)):
            name = self.one_of(*parts)
            parts[name] = self.spoilt_array(parts[name])
        made = of_parts(m.shape, **parts)
        if self.some(0.2):
            made.has_sorted_indices = self.some(0.5)
            made.has_canonical_format = self.some(0.5)
        return made

    def spoilt_array(self, array):
        change = self.one_of("type", "value", "value", "value", "length", "order", "twice", "stride", "dimensions", "read-only")
        if change == "type":
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # NaN as a whole number
                kind = self.one_of(*DTYPES) if array.dtype.kind in "fiub" else object
                return array.astype(kind)
        if change == "value" and array.size and array.dtype.kind in "fiu":
            values = (np.nan, np.inf, -np.inf, -3.5, 0.0, 3e38, 1e-45) if array.dtype.kind == "f" else (-1, 0, UNITS, 2**31 - 1, -2**31,
                                                                                                        127)
            return with_value(array, self.up_to(array.size - 1), self.one_of(*values))
        if change == "length":
            return self.one_of(array[:-1], array[:0], np.concatenate([array, array[:1]]))
        if change == "order":
            return array[::-1]
        if change == "twice" and array.size > 1:
            at = self.up_to(array.size - 2)
            return with_value(array, at + 1, array.flat[at])
        if change == "stride":
            return np.repeat(array, 2)[::2]
        if change == "dimensions":
            return array.reshape(1, -1)
        array = array.copy()
        array.flags.writeable = False
        return array

    # Other arguments.

    def value(self):
        """Something else."""
        return self.one_of(None, 0, 1, -1, 3, 2**31, 2**63, 2**70, 0.5, float("nan"), float("inf"), "", "auto", "Output", "Hidden",
                           "ndcg@5", "unit1", "\0", "ü" * 5000, True, [], [1, 2],
                           [[1], [2]], ["a"], {}, {"a": 1}, b"x", np.int64(3), np.float32(2), np.array([1, 2]), np.array(["a"]),
                           np.zeros((2, 0)), np.zeros((0, 3), np.float32),
                           np.array(5), (1, 2), {1, 2}, object(), range(3), lambda: 1, types.SimpleNamespace(matrix=3), int, iter([1]),
                           -0.0, 10**400, "1e999")

    def or_spoilt(self, *right):
        return self.value() if self.some(self.spoilt) else self.one_of(*right)

    def epochs(self):
        """2**31 is right, and would take years."""
        made = self.or_spoilt(1, 2)
        return 1 if isinstance(made, int) and made == 2**31 else made

    def units(self):
        """As arguments name units."""
        return self.or_spoilt(0, 7, [1, 2, 29], [3, 3, 3], np.array([4, 5]), np.arange(UNITS), np.arange(UNITS) % 2 == 0,
                              ["unit1", "unit7"], "unit3", range(5), [UNITS], [-1], [2.0],
                              np.array([1, 2], ">i8"), np.array([2**40]), np.zeros(3, bool), [])

    def settings(self, network=True):
        given = {"device": "cpu", "threads": self.one_of(1, 1, 2), "epochs": self.one_of(1, 1, 2, 3), "batch": self.or_spoilt(1, 7, 9)}
        if network and self.some(0.3):
            given["hidden"] = self.or_spoilt(1, 5, 33)
        if network and self.some(0.2):
            given["recipe"] = self.or_spoilt("softmax", "sigmoid")
        for _ in range(self.one_of(0, 0, 0, 1, 1, 2)):
            row = self.random.choice(_core.settings_table())
            if row["name"] in ("force", "checkpoint_name", "epochs", "last_epoch", "validation_input", "validation_output",
                               "checkpoint_minutes", "checkpoint_epochs"):
                continue
            right = row["words"] or {"early_stop": ["loss", "ndcg@5"], "keep_best": ["loss", "recall@3"], "metrics_at": [[1, 5], "3"],
                                     "refit": [True],
                                     "validation_split": [0.2]}.get(row["name"], [1, 2] if row["kind"] == "int" else [0.1, 0.5])
            given[row["name"] + "_" * (row["name"] == "lambda")] = self.value() if self.some(self.spoilt / 2) else self.one_of(*right)
        return given

    def descriptor(self, known="auto", wanted="auto"):
        """Of these data sets."""
        layers = [{"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": known,
                   **self.one_of({}, {}, {"Normalize": "L2"}, {"pDropout": 0.3})}]
        for number in range(self.one_of(0, 1, 1, 2, 3)):
            layers.append({"Name": f"H{number}" if number else "Hidden", "N": self.one_of(1, 5, 17),
                           "Activation": self.one_of("Tanh", "Relu", "Sigmoid", "ELU", "GELU", "Swish", "SoftMax"),
                           **self.one_of({}, {}, {"BatchNormalization": True}, {"pDropout": 0.5}, {"WeightNorm": 1.0})})
        layers.append({"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": wanted})
        layers[-1]["Activation"], error = self.one_of(("Sigmoid", "ScaledMarginalCrossEntropy"), ("Sigmoid", "CrossEntropy"),
                                                      ("SoftMax", "CrossEntropy"), ("Linear", "L2"), ("Tanh", "L1"),
                                                      ("Linear", self.one_of("Hinge", "L2Hinge", "ScaledMarginalCrossEntropy")))
        made = {"Name": "drawn", "ErrorFunction": error, "Layers": layers}
        if self.some(self.spoilt):
            target = self.one_of(made, *layers)
            key = self.one_of(*target, "Source", "Skip", "SharedWeights", "InputWeighting", "Lambda", "Nonsense")
            target[key] = self.one_of(self.value(), -1, 0, "Input", "Output", ["Hidden", "Hidden"], 2**62, 1e300, [{}], {"Scheme": "x"})
        return made

    def damaged(self, content):
        """The bytes of a file, some of them others."""
        data = bytearray(content)
        for _ in range(self.one_of(1, 1, 2, 5)):
            at = self.up_to(max(0, len(data) - 1))
            change = self.one_of("byte", "bit", "cut", "take", "again", "fill", "number")
            if change == "byte":
                data[at:at + 1] = self.random.randbytes(1)
            elif change == "bit" and data:
                data[at] ^= 1 << self.up_to(7)
            elif change == "cut":
                del data[at:]
            elif change == "take":
                del data[at:at + self.one_of(1, 4, 33)]
            elif change == "again":
                data[at:at] = data[at:at + self.one_of(1, 4, 33)]
            elif change == "fill":
                data[at:at + 8] = self.one_of(b"\0", b"\xff", b"\x7f") * 8
            else:
                data[at:at + 4] = self.one_of(0, 1, 2**31, 2**32 - 1).to_bytes(4, self.one_of("little", "big"))
        return bytes(data)


def of_parts(shape, data, indices, indptr):
    """A matrix of any arrays, as SciPy itself would not make it."""
    made = sp.csr_matrix(shape, dtype=np.float32)
    made.data, made.indices, made.indptr = data, indices, indptr
    return made


def raising(error):
    def call(*_):
        raise error
    return call


class Wary(norn.Callback):
    """Is told of everything, and does something of it."""

    step_seconds = 0.0

    def __init__(self, kind, act, rate=None):
        self.kind, self.act, self.new_rate = kind, act, rate

    def __call__(self, env):
        if env.kind == self.kind:
            self.act(env)

    def rate(self, epoch, rate):
        return rate if self.new_rate is None else self.new_rate

# SPDX-License-Identifier: Apache-2.0
"""Random calls of the package with right and wrong arguments: an answer, or an exception that is meant; never a crash.
fuzz_test.py makes a few; by hand: python fuzz_binding.py CALLS [SEED]. tools/dev/fuzz_python.sh does it under
AddressSanitizer."""
import pickle
import random
import sys
import threading
import warnings

import numpy as np
import scipy.sparse as sp

import norn
from norn import _core

MEANT = (norn.Error, TypeError, ZeroDivisionError)
DTYPES = (np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint8, bool, np.float16, complex, object)


class Caller:
    """Draws calls; models and arrays that came of earlier ones are arguments of later ones."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.models = []
        self.kept = []
        self.counts = {}

    def one_of(self, *choices):
        return self.random.choice(choices)

    def matrix(self):
        rows, columns = self.one_of(0, 1, *[40] * 12, 80), self.one_of(0, 7, *[30] * 18, 31)
        made = sp.random(rows, columns, density=self.random.random() * 0.4, format="csr", random_state=self.random.randrange(2**31), dtype=np.float32)
        if self.random.random() < 0.7:
            made.data[:] = 1
        if self.random.random() < 0.15:  # SciPy itself crashes when it converts what is broken
            return self.one_of(made.tocoo, made.tocsc, made.toarray, lambda: sp.csr_array(made))()
        for _ in range(self.one_of(0, 0, 0, 0, 0, 1, 2)):
            name = self.one_of("data", "indices", "indptr")
            array = getattr(made, name)
            change = self.one_of("type", "value", "length", "stride")
            if change == "type":
                with np.errstate(all="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # NaN as a whole number
                    array = array.astype(self.one_of(*DTYPES))
            elif change == "value" and array.size and array.dtype != object:
                array = array.copy()
                value = self.one_of(-1, 0, 30, 2**31 - 1, 127)
                array[self.random.randrange(array.size)] = self.one_of(np.nan, np.inf, -3.5, 0.0) if array.dtype.kind == "f" else np.array(value).astype(array.dtype)
            elif change == "length":
                array = self.one_of(array[:-1], np.concatenate([array, array[:1]]))
            elif change == "stride":
                array = np.repeat(array, 2)[::2]
            setattr(made, name, array)
        return made

    def value(self):
        return self.one_of(None, 0, 1, -1, 3, 2**31, 2**63, 2**70, 0.5, float("nan"), "", "auto", "Output", "ndcg@5", "unit1", True, [], [1, 2], ["a"], {},
                           b"x", np.int64(3), np.float32(2), np.array([1, 2]), np.array(["a"]), self.matrix, (1, 2), object())

    def settings(self):
        given = {"device": "cpu", "threads": self.one_of(0, 1, 2), "epochs": self.one_of(0, 1, 2)}
        for _ in range(self.one_of(0, 0, 0, 0, 1, 2)):
            row = self.random.choice(_core.settings_table())
            if row["name"] not in ("force", "checkpoint_name", "epochs", "last_epoch"):
                given[row["name"]] = self.one_of(self.value(), *(row["words"] or [1, 0.1]))
        return given

    def model(self):
        return self.random.choice(self.models) if self.models else norn.Recommender()

    def fit(self):
        made = norn.Recommender(**self.settings())
        self.models.append(made)
        del self.models[:-4]
        callbacks = self.one_of((), (), (), [lambda env: 1 / 0], [lambda env: env.history.clear()], [norn.reset_rate([0.1])], [3])
        made.fit(self.matrix(), self.one_of(None, None, None, None, self.matrix()), validation=self.one_of(None, None, None, 0.3, (self.matrix(), self.matrix())),
                 callbacks=callbacks, weights=self.one_of(None, None, None, [1.0] * 40, "x"))

    def recommend(self):
        given = {name: self.value() for name in self.random.sample(["N", "filter_items", "items", "filter_pairs", "score_factors", "layer"], self.one_of(0, 0, 1, 2))}
        given = {name: value() if callable(value) else value for name, value in given.items() if not (name == "N" and value is not None and type(value) is int and value > 10**6)}
        self.kept.append(self.model().recommend(self.one_of(self.matrix(), self.matrix(), [1, 2], self.value()), **given))
        del self.kept[:-5]

    def other(self):
        model, m = self.model(), self.matrix()
        self.one_of(
            lambda: model.similar_items(self.value(), N=self.one_of(1, 5, self.value())), lambda: model.transform(m, self.one_of("Hidden", "Output", "x")),
            lambda: model.evaluate(m, self.one_of(m, self.matrix()), k=self.one_of(1, [1, 5], self.value())), lambda: model.partial_fit(m),
            lambda: model.fit(m, resume=True), lambda: self.models.append(pickle.loads(pickle.dumps(model))), lambda: model.close(),
            lambda: self.kept.append(model.network_.parameters), lambda: (repr(model), model._repr_html_()), lambda: model.labels,
            lambda: model.set_params(**{"epochs": self.value()}), lambda: norn.Network.from_json(self.one_of("{", "{}", {}, {"Layers": self.value()}, 3)),
            lambda: _core.MemorySet.sparse("x", self.one_of(0, -1, 5, 2**40), np.array([0, self.one_of(0, 1, 5, -1, 2**62)]), np.arange(3, dtype=np.int32)),
            lambda: _core.Labels(self.one_of(["a", "b"], ["a", "a"], [1], "ab", 3)).find(self.one_of(["a"], [1], "b")),
            lambda: _core.Model.from_bytes(self.one_of(b"", b"CDF", self.random.randbytes(300))), lambda: self.beside(model, m),
            lambda: [array.sum() for kept in self.kept if isinstance(kept, dict) for array in kept.values()],
        )()

    def beside(self, model, matrix):
        """The same model on another thread, while this one goes on."""
        def work():
            try:
                model.recommend(matrix)
            except MEANT:
                pass
        threading.Thread(target=work).start()

    def call(self):
        name = self.one_of("fit", "recommend", "recommend", "other", "other", "other")
        try:
            getattr(self, name)()
            outcome = "answered"
        except MEANT as error:
            outcome = type(error).__name__
            if str(error) == "" or "std::" in str(error):
                raise AssertionError(f"{outcome} says nothing that helps: {error}") from error
        self.counts[name, outcome] = self.counts.get((name, outcome), 0) + 1


def fuzz(calls, seed):
    caller = Caller(seed)
    for number in range(calls):
        try:
            caller.call()
        except BaseException:
            print(f"call {number} of seed {seed}")
            raise
    return caller.counts


if __name__ == "__main__":
    calls = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(2**31)
    print(f"seed {seed}", flush=True)
    for what, count in sorted(fuzz(calls, seed).items()):
        print(*what, count)

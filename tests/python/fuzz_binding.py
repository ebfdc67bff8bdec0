# SPDX-License-Identifier: Apache-2.0
"""Random calls of the package with right and wrong arguments: an answer, or an exception that is meant; never a crash.
fuzz_test.py makes a few; by hand: python fuzz_binding.py CALLS [SEED]. tools/dev/fuzz_python.sh does it under
AddressSanitizer."""
import collections
import contextlib
import copy
import io
import json
import os
import pathlib
import pickle
import sys
import tempfile
import threading
import time
import warnings

import numpy as np

import norn
from hostile_values import UNITS, Draw, Planted, Wary, raising, with_value
from norn import _core, interchange
from norn.implicit import Autoencoder

MEANT = (norn.Error, TypeError, Planted, norn.StopTraining)
# How often each kind of call is drawn.
KINDS = {"fit": 6, "train": 6, "recommend": 8, "basket": 4, "similar_items": 3, "transform": 3, "alike": 3, "lists": 4, "explain": 4,
         "vectors": 2, "evaluate": 4, "go_on": 4, "plan": 2, "from_json": 2, "from_parameters": 3, "parameters": 2, "files": 3,
         "pickles": 2, "shown": 2, "set_params": 2, "dataset": 5, "split": 3, "table": 4, "text": 3, "netcdf": 3, "onnx": 1,
         "safetensors": 2, "torch": 2, "sets": 5, "labels": 2, "bytes": 2, "threads": 2, "forked": 1, "overwritten": 2, "implicit": 2,
         "closed": 1}


class Caller(Draw):
    """Draws calls; models, data and arrays that came of earlier ones are arguments of later ones."""

    def __init__(self, seed, folder):
        super().__init__(seed)
        self.folder = pathlib.Path(folder)
        self.models = [self.fresh()]
        self.data = [norn.Dataset(self.csr(UNITS, 40))]
        self.kept = collections.deque(maxlen=6)
        self.failed = []  # what threads raised that is not meant
        self.counts = {}

    def model(self):
        return norn.Recommender() if self.some(self.spoilt / 10) else self.random.choice(self.models)

    def keep_model(self, made):
        if made._network is not None:
            self.models = [*self.models[-4:], made]

    def keep_data(self, *made):
        self.data = [*self.data[-3:], *made]

    def users(self, matrix):
        """Rows of it, as far as it is one."""
        shape = getattr(matrix, "shape", ())
        return shape[0] if len(shape) == 2 and 0 < shape[0] < 100 else 40

    def replace_closed(self):
        self.models = [model for model in self.models if not model.network_.model.closed] or [self.fresh()]

    def fresh(self, threads=1):
        labels = self.one_of(None, [f"unit{u}" for u in range(UNITS)])
        return norn.Recommender(epochs=1, hidden=5, device="cpu",
                                threads=threads).fit(norn.Dataset(self.csr(UNITS, 40), feature_labels=labels))

    # Training.

    def callbacks(self):
        kind = self.one_of("begin", "step", "epoch", "validation", "end", "checkpoint")
        act = self.one_of(raising(Planted("planted")), raising(norn.StopTraining()), lambda env: env.history.clear(),
                          lambda env: self.kept.append(env.report),
                          lambda env: self.model().recommend([1, 2]), lambda env: self.model().close(),
                          lambda env: self.kept.append(self.model().network_.parameters),
                          lambda env: self.fresh(), lambda env: time.sleep(0.001))
        return self.one_of((), (), (), [Wary(kind, act)], act, [Wary("x", act, self.or_spoilt(0.1, 0.0))],
                           [norn.reset_rate(self.one_of([0.1], [0.1, 1e30], lambda e, r: r / 2, lambda: 1))],
                           [norn.early_stopping(self.or_spoilt("loss", "ndcg@5"), self.or_spoilt(1, 5))],
                           [self.or_spoilt(lambda env: None)], [norn.progress()],
                           [norn.checkpoints(self.folder / "point.nc", self.or_spoilt(1), keep=self.or_spoilt(1, 2))],
                           [norn.run_folder(self.folder / f"run{self.up_to(10**9)}")])

    def validation(self):
        return self.one_of(None, None, self.or_spoilt(0.3), (self.matrix(), self.matrix()), (self.csr(UNITS, 20), self.csr(UNITS, 20)))

    def fit(self):
        settings = self.settings() | ({"network": self.descriptor(), "hidden": None} if self.some(0.3) else {})
        known = self.matrix(users=40)
        targets = self.matrix(users=self.users(known)) if self.some(0.2) else None
        weights = self.or_spoilt(np.ones(self.users(known)), [0.5] * 40) if self.some(0.2) else None
        self.keep_model(norn.Recommender(**settings).fit(known, targets, validation=self.validation(), callbacks=self.callbacks(),
                                                         weights=weights))

    def train(self):
        network = self.one_of(self.descriptor("a", self.one_of("a", "b")), self.model().network_)
        names = {"a", "b"} if isinstance(network, dict) else {"data_input", "data_output"}
        data = {name: self.matrix(users=40) for name in names}
        if self.some(0.2):
            data["a"] = self.numbers.random((40, self.one_of(1, 12, UNITS)), np.float32)
        validation = self.one_of(None, None, self.or_spoilt(0.3), {name: self.matrix(users=9) for name in names})
        self.kept.append(norn.train(network, self.or_spoilt(data), validation=validation, callbacks=self.callbacks(),
                                    **self.settings(network=False)))

    def go_on(self):
        model = copy.copy(self.model())
        if self.some(0.5):
            model.partial_fit(self.matrix(), epochs=self.epochs(), callbacks=self.callbacks())
        else:
            model.set_params(epochs=self.one_of(3, 4, 5)).fit(self.matrix(), resume=True, callbacks=self.callbacks())
        self.keep_model(model)

    def overwritten(self):
        """Arrays that others write into while training reads them."""
        m = self.csr(UNITS, 40)
        name = self.one_of("indices", "data", "indptr")

        def overwrite(*_):
            getattr(m, name)[:] = self.one_of(-1, 0, 2**30, UNITS, UNITS - 1) if name != "data" else self.one_of(np.nan, 1.0, np.inf, -5.0)
        model = norn.Recommender(epochs=4, hidden=3, batch=self.one_of(4, 40), device="cpu", threads=self.one_of(1, 2))
        if self.some(0.5):
            model.fit(m, callbacks=[overwrite])
            return
        thread = self.beside(lambda: (time.sleep(self.random.random() * 0.01), overwrite()))
        try:
            self.one_of(lambda: model.fit(m), lambda: self.model().recommend(m), lambda: self.model().evaluate(m, m),
                        lambda: self.model().transform(m))()
        finally:
            thread.join()

    # Predictions.

    def recommend(self):
        right = {"N": (1, 10, UNITS, 1000), "filter_already_liked_items": (True, False), "layer": ("", "Output")}
        known = self.matrix()
        users = self.users(known)
        given = {name: self.or_spoilt(*choices) for name, choices in right.items() if self.some(0.4)}
        for name in ("filter_items", "items"):
            if self.some(0.2):
                given[name] = self.units()
        if self.some(0.2):
            given["filter_pairs"] = self.matrix(users=users)
        if self.some(0.2):
            given["score_factors"] = self.one_of(self.matrix(users=users), np.ones(UNITS), np.ones((users, UNITS)),
                                                 self.or_spoilt(np.full(UNITS, 0.5), np.full(UNITS, np.nan)))
        self.kept.append(self.model().recommend(known, **given))

    def basket(self):
        self.kept.append(self.model().recommend(self.units(), N=self.or_spoilt(1, 5), items=self.one_of(None, None, self.units())))

    def similar_items(self):
        self.kept.append(self.model().similar_items(self.units(), N=self.or_spoilt(1, 5, 100), of=self.or_spoilt("output", "input"),
                                                    filter_items=self.one_of(None, self.units())))

    def transform(self):
        self.kept.append(self.model().transform(self.matrix(), self.or_spoilt("Hidden", "Hidden", "Output")))

    def alike(self):
        self.kept.append(self.model().similar_users(self.one_of(self.matrix(), self.units()), self.matrix(), N=self.or_spoilt(1, 5, 100),
                                                    layer=self.or_spoilt("Hidden", "Hidden", "Output")))

    def lists(self):
        known = self.matrix()
        users = self.users(known)
        stream = self.model().recommend_table(
            known, N=self.or_spoilt(1, 5, 100), batch=self.or_spoilt(1, 7, 100),
            users=self.one_of(None, self.or_spoilt(range(users), list("ab"), np.arange(users))),
            items=self.one_of(None, None, self.units()), filter_pairs=self.one_of(None, self.matrix(users=users)),
            score_factors=self.one_of(None, self.matrix(users=users), np.ones(UNITS), np.ones((users, UNITS))))
        self.one_of(stream.to_arrow, stream.to_pandas, lambda: list(stream), lambda: stream.to_parquet(self.or_spoilt("a.parquet")))()

    def explain(self):
        known = self.one_of(self.matrix(), self.units())
        item = self.one_of(0, self.units(), self.or_spoilt(np.zeros((self.users(known), 2), int), "1", -1))
        self.kept.append(self.model().explain(known, item, N=self.or_spoilt(1, 5, 10**6), layer=self.or_spoilt("", "Output")))

    def vectors(self):
        self.kept.append(self.model().export_vectors(self.one_of(None, self.matrix()), layer=self.or_spoilt("", "Output")).items)

    def evaluate(self):
        known = self.matrix()
        held_out = self.matrix(users=self.users(known))
        if self.some(0.2):
            self.model().score(known, self.one_of(None, held_out))
            return
        asked = {"k": self.or_spoilt(1, [1, 5], (3,), [UNITS * 2]), "keep_seen": self.or_spoilt(True, False),
                 "layer": self.or_spoilt("", "Output"), "resamples": self.or_spoilt(1, 30), "seed": self.or_spoilt(0, 2**64 - 1),
                 "items": self.one_of(None, None, self.units()),
                 **({"also": self.or_spoilt("auc", ["novelty", "diversity"]), "trained_on": self.matrix()} if self.some(0.3) else {})}
        if self.some(0.4):
            repr(norn.compare(self.model(), self.or_spoilt(self.model()), known, held_out, level=self.or_spoilt(0.9), **asked))
        else:
            repr(self.model().evaluate(known, held_out, per_example=self.or_spoilt(True, False), interval=self.or_spoilt(None, 0.9),
                                       **asked))

    # Networks and models.

    def plan(self):
        norn.Network.from_json(self.descriptor("a", "a")).plan(self.or_spoilt({"a": self.matrix(users=40)}), device="cpu",
                                                               batch=self.or_spoilt(1, 10))

    def from_json(self):
        text = json.dumps(self.descriptor(), default=str)
        cut = text[:self.up_to(len(text))]
        made = norn.Network.from_json(self.or_spoilt(text, text, json.loads(text), cut))
        self.kept.append(made.descriptor)

    def from_parameters(self):
        network = self.model().network_
        arrays = {name: self.one_of(array, np.asfortranarray(array), np.repeat(array, 2, 0)[::2], array[::-1])
                  for name, array in network.parameters.items()}
        if self.some(self.spoilt):
            name = self.one_of(*arrays)
            array = arrays.pop(name)
            arrays[self.one_of(name, name, "x", 3)] = self.one_of(array.astype(self.one_of(np.float64, ">f4", bool, object)), array[:-1],
                                                                  array[:0], array[None], with_value(array, 0, np.nan),
                                                                 np.broadcast_to(np.float32(1), array.shape), self.value())
        words = [f"unit{u}" for u in range(network.descriptor["Layers"][-1]["N"])]
        labels = self.one_of(None, {"Output": words}) if self.some(0.8) else self.one_of({"Output": ["a", "a"]}, {"x": ["a"]},
                                                                                         {"Output": [*words, "x"]}, self.value())
        made = norn.Network.from_parameters(self.or_spoilt(network.descriptor, json.dumps(network.descriptor)), arrays, labels,
                                            device="cpu", threads=1, batch=self.or_spoilt(1, 64))
        file = self.folder / "parameters.nc"
        made.save(file)
        self.keep_model(norn.load(file, device="cpu", threads=1))

    def parameters(self):
        model = self.model()
        self.kept.append(model.network_.parameters)
        if self.some(0.2):
            model.close()
        for kept in self.kept:
            for array in kept.values() if isinstance(kept, dict) else ():
                if isinstance(array, np.ndarray) and array.size:
                    array.sum()
                    if self.some(0.1) and not array.flags.writeable:
                        try:
                            array[0] = 1
                        except ValueError:  # NumPy's: it is read-only
                            continue

    def files(self):
        file = self.folder / f"model{self.up_to(10**9)}.nc"
        self.model().save(self.or_spoilt(file))
        if not file.exists():
            return
        if self.some(0.4):
            file.write_bytes(self.damaged(file.read_bytes()))
        self.keep_model(norn.load(self.one_of(file, str(file)), device=self.or_spoilt("cpu"), threads=self.or_spoilt(1, 2),
                                  batch=self.or_spoilt(1, 7, 1024)))

    def pickles(self):
        self.keep_model(self.one_of(lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy, copy.copy)(self.model()))

    def shown(self):
        model = self.model()
        self.one_of(lambda: (repr(model), model._repr_html_()), lambda: [model.labels[i] for i in [0, -1]] if model.labels else None,
                    lambda: model.history.to_pandas(),
                    lambda: (model.history.best, model.history.curves(), model.get_params()),
                    lambda: model.network_.labels(self.or_spoilt("Output", "Input")))()

    def set_params(self):
        model = copy.copy(self.model())
        model.set_params(**{self.or_spoilt("epochs", "seed", "batch") if self.some(0.9) else "nonsense": self.or_spoilt(1, 2)})

    def closed(self):
        model = copy.deepcopy(self.model())
        model.close()
        self.one_of(lambda: model.recommend([1]), lambda: model.save(self.folder / "closed.nc"), lambda: model.network_.parameters,
                    lambda: pickle.dumps(model), lambda: repr(model),
                    lambda: model.partial_fit(self.csr(UNITS, 9)), lambda: model.evaluate(self.csr(UNITS, 9), self.csr(UNITS, 9)),
                    model.close, lambda: model.history)()

    def implicit(self):
        made = Autoencoder(epochs=1, hidden=3, device="cpu", threads=1)
        m = self.csr(UNITS, 20)
        made.fit(m, show_progress=False, callback=self.one_of(None, lambda *_: None, raising(Planted("planted"))))
        ids = self.one_of(3, np.array([1, 2]), [0, 19])
        made.recommend(self.or_spoilt(ids), self.one_of(m[ids], m, None, self.matrix()), N=self.or_spoilt(3))
        made.similar_users(self.or_spoilt(ids), N=self.or_spoilt(3), users=self.one_of(None, range(9), self.units()))

    # Data.

    def dataset(self):
        labels = [f"unit{u}" for u in range(UNITS)]
        made = norn.Dataset(self.matrix(users=40), targets=self.or_spoilt(None, None, self.matrix(users=40)),
                            feature_labels=self.or_spoilt(None, labels), name=self.or_spoilt("data"),
                            example_labels=self.or_spoilt(None, [str(e) for e in range(40)]))
        repr(made)
        self.keep_data(made)

    def split(self):
        rule = self.one_of("ratio:0.8/0.2", "ratio:0.5/0.2/0.3", "leave-one-out",
                           self.or_spoilt("leave-last-out", "time:2020-01-01", "ratio:", "ratio:nan/1", "ratio:0/1"))
        made = self.random.choice(self.data).split(rule, by=self.or_spoilt("entry", "example", "pair"), seed=self.or_spoilt(0, 1, 2**63))
        repr(made), made.train.matrix, made.test.targets
        self.keep_data(made, made.train, made.test)

    def table(self):
        count = self.one_of(1, 20, 60)
        columns = {"user": self.numbers.integers(0, 9, count), "item": [f"i{n}" for n in self.numbers.integers(0, 9, count)],
                   "rating": self.numbers.integers(1, 6, count) * 0.5,
                   "when": self.numbers.integers(0, 2**40, count).astype(self.one_of("i8", "M8[us]", "M8[s]"))}
        if self.some(self.spoilt):
            name = self.one_of(*columns)
            columns[name] = self.one_of(self.spoilt_array(np.asarray(columns[name])), self.value(), [None] * count, list(range(count)))
        table = columns
        if self.some(0.5):
            import pandas
            try:
                table = pandas.DataFrame(columns)
            except Exception:  # pandas does not take it
                return
        data = norn.Dataset.from_table(table, self.or_spoilt("user"), self.or_spoilt("item"), self.or_spoilt(None, "rating"),
                                       time=self.one_of(None, "when"), duplicates=self.or_spoilt("sum", "first"),
                                       where=self.or_spoilt(None, None, "rating >= 2", "item in (i1, i2, i3)"),
                                       min_features=self.or_spoilt(1, 2), min_examples=self.or_spoilt(1, 2),
                                       split=self.one_of(None, None, "ratio:0.8/0.2", "leave-one-out"))
        data.matrix.sum()

    def text(self):
        separator = self.one_of(",", "\t", "::", ";")
        lines = {f"{self.up_to(8)}{separator}{self.up_to(20)}" for _ in range(30)}
        content = "".join(f"{line}\n" for line in sorted(lines)).encode()
        others = ".libsvm", ".jsonl", ".npz", ".gz", ".parquet", ".inter", ""
        file = self.folder / f"text{self.one_of('.csv', '.tsv', '.dat') if self.some(0.8) else self.one_of(*others)}"
        file.write_bytes(self.damaged(content) if self.some(0.4) else content)
        self.keep_data(norn.Dataset.from_table(file, 1, 2,
                                               format="columns" if self.some(0.8)
                                               else self.or_spoilt("auto", "csv", "dsstne", "libsvm", "list"),
                                               skip_malformed=self.one_of(0, 0, 5),
                                               header="no", duplicates=self.or_spoilt("sum", "first"), separator=self.or_spoilt(separator)))

    def netcdf(self):
        file = self.folder / "data.nc"
        data = self.random.choice(self.data)
        written = data.to_netcdf(self.or_spoilt(file), name=self.or_spoilt(None, "data"), target_values=self.some(0.3))
        if not written:
            return
        file = pathlib.Path(self.random.choice(written))
        if self.some(0.4):
            file.write_bytes(self.damaged(file.read_bytes()))
        read = norn.Dataset.from_netcdf(file, name=self.or_spoilt(None))
        assert read.matrix.shape == read.shape
        self.keep_data(read)

    # Formats of others.

    def onnx(self):
        self.exchanged(lambda file: norn.export_onnx(self.model(), file, top_k=self.some(0.3), dense=self.one_of(None, True)),
                       norn.import_onnx, "x.onnx")

    def safetensors(self):
        self.exchanged(lambda file: norn.export_safetensors(self.model(), file), norn.import_safetensors, "x.safetensors")

    def exchanged(self, write, read, name):
        file = self.folder / name
        write(file)
        if self.some(0.6):
            file.write_bytes(self.damaged(file.read_bytes()))
        self.kept.append(read(file).parameters)

    def torch(self):
        model = self.model().network_
        arrays = interchange.state_dict(model)
        if self.some(0.5):
            name = self.one_of(*arrays)
            arrays[self.one_of(name, "x", 3)] = self.one_of(self.spoilt_array(arrays[name]), self.value(), arrays[name].T)
        self.kept.append(norn.import_torch(arrays, model.descriptor).parameters)

    # What lies below.

    def sets(self):
        begin, columns, values = np.array([0, self.one_of(0, 1, 3), 3], np.int64), self.one_of(np.array([0, 2, 4], np.int32),
                                                                                               np.array([0, 2, 4],
                                                                                                        np.uint32)), np.ones(3, np.float32)
        weights = None
        if self.some(2 * self.spoilt):
            begin = self.one_of(begin, self.spoilt_array(begin), with_value(begin, 1, 2**62), with_value(begin, 2, -1))
            columns, values = self.spoilt_array(columns), self.or_spoilt(self.spoilt_array(values))
            weights = self.or_spoilt(np.ones(2, np.float32), np.ones(3))
        made = _core.MemorySet.sparse("data_input", self.or_spoilt(UNITS, UNITS, 5), begin, columns, self.one_of(None, values),
                                      weights=weights)
        model = self.fresh().network_.model if self.some(0.1) else self.model().network_.model
        dense = self.or_spoilt(np.ones((2, UNITS), np.float32), np.zeros((0, 5), np.float32))
        self.one_of(lambda: _core.recommend(model, [made], self.or_spoilt(1, 5)), lambda: _core.embed(model, [made], "Hidden"),
                    lambda: _core.evaluate(model, [made, made], [1, 3]),
                    lambda: _core.recommend(model, [made], 3, excluded=made, factors=made,
                                            allowed=self.or_spoilt(None, np.ones(UNITS, np.uint8), np.ones(2, np.uint8))),
                    lambda: _core.recommend(model, [_core.MemorySet.dense("data_input", dense)], 3))()

    def labels(self):
        made = _core.Labels(self.or_spoilt(["a", "b"], ["ü"], [], ["a", "a"]))
        self.one_of(lambda: made.find(self.or_spoilt(["a"], [])), lambda: made[0] if len(made) else None,
                    lambda: (len(made), made.has_words(), made.are_numbers()))()

    def bytes(self):
        whole = self.model().network_.model.bytes()
        damaged = self.damaged(whole)
        made = _core.Model.from_bytes(self.one_of(whole, damaged, damaged, b"", self.random.randbytes(300)), device="cpu", threads=1)
        self.kept.append(made.parameters())

    def threads(self):
        """Several calls at once: of one model, of two, or with a training beside."""
        a, b = self.model(), self.model()
        m, other = self.csr(UNITS, 40), self.matrix()
        calls = [lambda: a.recommend(m), lambda: b.recommend(other), lambda: a.evaluate(m, m), lambda: a.save(self.folder / "beside.nc"),
                 lambda: pickle.dumps(b), lambda: a.close(),
                 lambda: norn.Recommender(epochs=1, hidden=3, device="cpu", threads=2).fit(other), lambda: b.network_.parameters,
                 lambda: b.transform(m)]
        threads = [self.beside(call) for call in self.random.sample(calls, self.one_of(2, 3, 4))]
        try:
            self.one_of(*calls)()
        finally:
            for thread in threads:
                thread.join()

    def beside(self, call):
        def work():
            try:
                call()
            except MEANT:
                pass
            except BaseException as error:
                self.failed.append(error)
        thread = threading.Thread(target=work)
        thread.start()
        return thread

    def forked(self):
        """A child may load, save and train, and goes on with its parent's models."""
        model, m = self.model(), self.csr(UNITS, 9)
        call = self.one_of(lambda: model.recommend(m), lambda: norn.Recommender(epochs=1, hidden=2, device="cpu", threads=1).fit(m),
                           lambda: model.close(), lambda: model.network_.parameters)
        child = os.fork()
        if child == 0:
            code = 0
            try:
                call()
            except MEANT:
                pass
            except BaseException:
                code = 1
            os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == 0, f"the child ended with {status}"

    # The loop.

    def refused(self, kind, error):
        if str(error) == "" and not isinstance(error, norn.StopTraining) or "std::" in str(error):
            raise AssertionError(f"{kind}: {type(error).__name__} says nothing that helps: {error}") from error

    def call(self):
        kind = self.random.choices(list(KINDS), KINDS.values())[0]
        self.spoilt = self.one_of(0.0, 0.0, 0.1, 0.4)
        self.replace_closed()
        try:
            with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
                warnings.simplefilter("ignore")
                getattr(self, kind)()
            outcome = "answered"
        except MEANT as error:
            outcome = "refused"
            self.refused(kind, error)
        if self.failed:
            raise self.failed.pop()
        self.counts[kind, outcome] = self.counts.get((kind, outcome), 0) + 1


def fuzz(calls, seed):
    """How many calls of each kind were answered and refused."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="norn-fuzz-") as folder:
        os.chdir(folder)  # any text is a path to write to
        try:
            caller = Caller(seed, folder)
            for number in range(calls):
                try:
                    caller.call()
                except BaseException:
                    print(f"call {number} of seed {seed}", flush=True)
                    raise
            return caller.counts
        finally:
            os.chdir(before)


if __name__ == "__main__":
    calls = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int.from_bytes(os.urandom(4), "big") // 2
    print(f"seed {seed}", flush=True)
    counts = fuzz(calls, seed)
    print(f"{'':16} answered  refused")
    for kind in KINDS:
        print(f"{kind:16} {counts.get((kind, 'answered'), 0):8} {counts.get((kind, 'refused'), 0):8}")
    for outcome in ("answered", "refused"):
        print(f"{outcome}: {sum(count for (_, what), count in counts.items() if what == outcome)}")

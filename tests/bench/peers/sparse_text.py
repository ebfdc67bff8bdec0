# SPDX-License-Identifier: Apache-2.0
"""Sparse 0/1 data for the peers: reads and writes `example<TAB>feature:feature:...`, and makes synthetic sets."""
import dataclasses
import gzip

import numpy as np


@dataclasses.dataclass
class SparseRows:
    """Rows of column numbers: row r holds column[row_begin[r]:row_begin[r + 1]]."""

    row_begin: np.ndarray  # [rows + 1] int64
    column: np.ndarray  # [entries] int64
    width: int
    examples: list
    features: list

    @property
    def rows(self):
        return len(self.row_begin) - 1

    def gather(self, rows):
        """The given rows as (row_begin, column), in that order."""
        counts = (self.row_begin[1:] - self.row_begin[:-1])[rows]
        begin = np.concatenate([[0], np.cumsum(counts)])
        positions = np.arange(begin[-1]) - np.repeat(begin[:-1] - self.row_begin[rows], counts)
        return begin, self.column[positions]


def _from_lists(lists, width, examples, features):
    begin = np.concatenate([[0], np.cumsum([len(columns) for columns in lists])]).astype(np.int64)
    flat = np.concatenate([np.asarray(columns, np.int64) for columns in lists])
    return SparseRows(begin, flat, width, examples, features)


def read_text(path, features=None):
    """Reads a text file, compressed or not. `features` fixes the numbering (unknown ones are an error);
    without it features are numbered in order of appearance. Values after a comma are ignored."""
    number = {} if features is None else {name: i for i, name in enumerate(features)}
    opener = gzip.open if str(path).endswith(".gz") else open
    lists, examples = [], []
    with opener(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            example, _, words = line.rstrip("\r\n").partition("\t")
            names = [word.split(",")[0] for word in words.split(":") if word]
            if features is None:
                lists.append([number.setdefault(name, len(number)) for name in names])
            else:
                lists.append([number[name] for name in names])
            examples.append(example)
    return _from_lists(lists, len(number), examples, list(number))


def write_text(rows, path):
    with open(path, "w", encoding="utf-8") as out:
        for r, example in enumerate(rows.examples):
            columns = rows.column[rows.row_begin[r] : rows.row_begin[r + 1]]
            out.write(example + "\t" + ":".join(rows.features[c] for c in columns) + "\n")


def generate(examples, width, nonzeros, seed):
    """A set with a catalogue's long tail: every row holds `nonzeros` different features, drawn without
    replacement with probabilities proportional to 1 / (rank + 10).

    Drawn as the largest `nonzeros` of log(p) + Gumbel noise (Yellott, J. Math. Psychology 15, 1977). With
    27,278 features and 144 nonzeros the shape is that of MovieLens-20M."""
    random = np.random.default_rng(seed)
    log_p = -np.log(np.arange(width, dtype=np.float32) + 10)
    parts = []
    for first in range(0, examples, 256):
        count = min(256, examples - first)
        keys = log_p - np.log(random.standard_exponential((count, width), np.float32))
        chosen = np.argpartition(keys, width - nonzeros, axis=1)[:, width - nonzeros :]
        parts.append(np.sort(chosen, axis=1).reshape(-1))
    begin = np.arange(examples + 1, dtype=np.int64) * nonzeros
    names = [f"f{i}" for i in range(width)]
    return SparseRows(begin, np.concatenate(parts).astype(np.int64), width,
                      [f"e{i}" for i in range(examples)], names)

# SPDX-License-Identifier: Apache-2.0
"""Spoils files: by byte, by word, by JSON value, and by item of a NetCDF file. Each returns a word on what was done."""
import copy
import json
import re

import netCDF4
import numpy as np

NUMBERS = [0, -1, 1, 2, 3, 100, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, -2**31, -2**63]
FRACTIONS = [float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 1e-320, 0.5, -0.0, 3.4028236e38]
WORDS = ["", " ", "0", "-0", "-1", "00", "1e999", "nan", "inf", "-inf", "1e-400", "0x10", "4294967296", "4294967295", "2147483648",
         "18446744073709551616", "9" * 40, "x" * 70000, "%s%n", "\u00e9\u2028", "\udcff\udcfe", "\x00", "\x1b[31m", "\x85", '"', "'",
         "a,b", "a:b", "#", "\t", "\r", "\n", "\\", "unit1", "ex1", "1:1", "1,2"]
JSON_VALUES = [None, True, False, "", "x", "auto", "\x1b[31mred\nline", "\u0000", "x" * 3000, [], {}, [[]], [None], {"a": 1}, 0, -1, 1,
               0.5, 1e308, -1e308, 1e-320, 2**31, 2**32, 2**63, 2**64, float("nan"), float("inf"), "train.nc", "/", "..", "/dev/null"]


def some_part(random, size):
    first = random.randrange(size + 1)
    return first, min(size, first + random.choice((1, 2, 4, 8, 64, 512, 4096)))


def by_byte(random, data):
    """(other bytes, what was done)."""
    data = bytearray(data)
    how = random.choice(("flip", "flip", "flip", "set", "cut", "drop", "splice", "repeat", "zeros", "ones", "append", "swap", "empty"))
    first, last = some_part(random, len(data))
    if how == "flip":
        for _ in range(random.choice((1, 1, 2, 8))):
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    elif how == "set":
        data[random.randrange(len(data))] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
    elif how == "cut":
        del data[first:]
    elif how == "drop":
        del data[first:last]
    elif how in ("splice", "repeat"):
        to = first if how == "repeat" else random.randrange(len(data) + 1)
        data[to:to] = data[first:last] * (random.choice((1, 3, 50)) if how == "repeat" else 1)
    elif how in ("zeros", "ones"):
        data[first:last] = (b"\0" if how == "zeros" else b"\xff") * (last - first)
    elif how == "append":
        data += random.choice((b"\0", b"\n", b"\x1f\x8b", data[first:last], b"NornSeal"))
    elif how == "swap":
        a, b = some_part(random, len(data))
        data[first:last], data[a:b] = data[a:b], data[first:last]
    else:
        data = bytearray()
    return bytes(data), how


def by_word(random, data):
    """Replaces, doubles or drops a word of text, or a whole line."""
    parts = re.split(rb"([\t\n:, ])", data)
    at = random.randrange(len(parts))
    how = random.choice(("word", "word", "word", "drop", "double", "line", "mark", "crlf"))
    if how == "word":
        parts[at] = random.choice(WORDS).encode(errors="surrogateescape")
    elif how == "drop":
        parts[at] = b""
    elif how == "double":
        parts[at] = parts[at] * random.choice((2, 300))
    joined = b"".join(parts)
    if how == "line":
        lines = joined.splitlines(keepends=True)
        lines.insert(random.randrange(len(lines) + 1), random.choice(lines))
        joined = b"".join(lines)
    elif how == "mark":
        joined = b"\xef\xbb\xbf" + joined
    elif how == "crlf":
        joined = joined.replace(b"\n", b"\r\n")
    return joined, how


def places(value, at=()):
    """The paths of all values within a JSON value."""
    yield at
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*at, key))


def by_json_value(random, data, sacred=re.compile("epochs", re.I)):
    """Changes one value or key; those whose key is `sacred` stay, because a long run is what they ask for."""
    value = copy.deepcopy(json.loads(data))
    path = random.choice([p for p in places(value) if p and not sacred.search(str(p[-1]))])
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    how = random.choice(("value", "value", "value", "drop", "key", "double"))
    if how == "drop":
        del holder[path[-1]]
    elif how == "value" or isinstance(holder, list):
        holder[path[-1]] = random.choice(JSON_VALUES)
    else:
        holder[random.choice(("", "Nonsense", "x" * 5000, "\x1b[2J", str(path[-1]).upper()))] = holder[path[-1]]
        if how == "key":
            del holder[path[-1]]
    return json.dumps(value).encode(), f"{how} at {path}"


class Items:
    """A NetCDF file's attributes, dimensions and variables, to be changed and written anew. Values None: nobody writes them."""

    def __init__(self, path):
        with netCDF4.Dataset(path) as file:
            file.set_auto_mask(False)
            self.attributes = {name: file.getncattr(name) for name in file.ncattrs()}
            self.dimensions = {name: len(dimension) for name, dimension in file.dimensions.items()}
            self.variables = {name: (variable.dtype, variable.dimensions, np.array(variable[...]))
                              for name, variable in file.variables.items()}
        self.packed, self.chunks = set(), {}  # variables that HDF5 packs; chunks of them and of others

    def write(self, path):
        with netCDF4.Dataset(path, "w", format="NETCDF4") as file:
            for name, value in self.attributes.items():
                file.setncattr(name, value)
            for name, size in self.dimensions.items():
                file.createDimension(name, size)
            for name, (kind, dimensions, values) in self.variables.items():
                made = file.createVariable(name, kind, dimensions, zlib=name in self.packed, chunksizes=self.chunks.get(name),
                                           fill_value=False)
                if values is None:
                    continue
                shape = tuple(self.dimensions[d] for d in dimensions)
                if values.size > 0 and 0 not in shape:
                    made[...] = np.resize(values, shape)

    def change_attribute(self, random):
        name = random.choice(sorted(self.attributes))
        how = random.choice(("drop", "number", "number", "number", "fraction", "text", "array", "kind"))
        value = self.attributes.pop(name)
        if how == "number":
            value = random.choice(NUMBERS)
            value = np.uint64(value) if value >= 2**31 else np.int64(value) if random.random() < 0.5 else np.int32(max(value, -2**31))
        elif how == "fraction":
            with np.errstate(over="ignore"):  # infinity is a number to try
                value = random.choice((np.float64, np.float32))(random.choice(FRACTIONS))
        elif how == "text":
            value = random.choice([word for word in WORDS if word and "\udcff" not in word and "\0" not in word])
        elif how == "array":
            value = np.arange(random.choice((2, 3, 1000)), dtype=random.choice(("i4", "u8", "f8")))
        elif how == "kind":
            value = str(value) or "x"
        if how != "drop":
            self.attributes[name] = value
        return f"attribute {name}: {how} {str(value)[:60]!r}"

    def change_dimension(self, random):
        name = random.choice(sorted(self.dimensions))
        self.dimensions[name] = random.choice((1, 2, self.dimensions[name] + 1, max(1, self.dimensions[name] - 1), 70000))
        return f"dimension {name}: {self.dimensions[name]}"

    def change_variable(self, random):
        name = random.choice(sorted(self.variables))
        kind, dimensions, values = self.variables.pop(name)
        how = random.choice(("drop", "rename", "kind", "rank", "values", "values", "values", "order"))
        if how == "kind":
            kind = np.dtype(random.choice(("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "S1")))
            values = values.astype("f8").astype(kind) if kind.kind != "S" and values.dtype.kind != "S" else np.zeros(values.shape, kind)
        elif how == "rank":
            self.dimensions.setdefault("two", 2)
            dimensions = random.choice(((), ("two", *dimensions), (*dimensions, "two"), ("two", "two", "two"), ("two",)))
        elif how == "values" and values.size and values.dtype.kind in "iuf":
            extremes = NUMBERS if values.dtype.kind in "iu" else NUMBERS + FRACTIONS
            for _ in range(random.choice((1, 1, 5))):
                with np.errstate(all="ignore"):
                    at = random.randrange(values.size)
                    values.reshape(-1)[at] = np.array(random.choice(extremes), dtype="O" if values.dtype.kind in "iu" else "f8").astype(
                        "f8").astype(values.dtype)
        elif how == "order":
            values = values[::-1] if values.ndim else values
        if how != "drop":
            self.variables[name + ("x" if how == "rename" else "")] = (kind, dimensions, values)
        return f"variable {name}: {how} {dimensions}"

    def change(self, random):
        changes = [self.change_attribute] * 3 + [self.change_variable] * 3 + [self.change_dimension] * bool(self.dimensions)
        return random.choice(changes)(random)


def by_item(random, path):
    """Changes one item of a NetCDF file, sometimes several; a seal that it had is gone."""
    items = Items(path)
    items.attributes.pop("norn_sealed", None)
    done = [items.change(random) for _ in range(random.choice((1, 1, 1, 3)))]
    items.write(path)
    return "; ".join(done)

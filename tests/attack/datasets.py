# SPDX-License-Identifier: Apache-2.0
"""Writes data sets of every kind that docs/user/formats.md describes, and says what a network sees of them."""
import netCDF4
import numpy as np

SPARSE, BOOLEAN, IGNORE_ZERO, INDEXED, WEIGHTED = 1, 2, 32, 64, 128
DATA_TYPES = {np.dtype("u4"): 0, np.dtype("i4"): 1, np.dtype("i8"): 2, np.dtype("u8"): 3, np.dtype("f4"): 4, np.dtype("f8"): 5,
              np.dtype("u1"): 8, np.dtype("i1"): 9, np.dtype("u2"): 7}


def attributes_of(one):
    bits = SPARSE if "rows" in one else 0
    bits |= BOOLEAN if "classes" in one or ("rows" in one and "values" not in one) else 0
    bits |= IGNORE_ZERO if one.get("ignore_zero") else 0
    bits |= INDEXED if "index" in one else 0
    return bits | (WEIGHTED if "weights" in one else 0)


def write_rows(file, n, one, dimension):
    sizes = np.array([len(row) for row in one["rows"]], dtype=np.uint64)
    end = np.cumsum(sizes).astype(np.uint64)
    file.createDimension(f"sparseDataDim{n}", int(end[-1]))
    file.createVariable(f"sparseStart{n}", "u8", (dimension,))[:] = end - sizes
    file.createVariable(f"sparseEnd{n}", "u8", (dimension,))[:] = end
    index = file.createVariable(f"sparseIndex{n}", "u4", (f"sparseDataDim{n}",))
    index[:] = np.concatenate([np.asarray(row, dtype=np.uint32) for row in one["rows"]])
    if "values" in one:
        data = file.createVariable(f"sparseData{n}", "f4", (f"sparseDataDim{n}",))
        data[:] = np.concatenate([np.asarray(row, dtype=np.float32) for row in one["values"]])


def write_sets(path, sets):
    """sets: dictionaries with name, width, and one of rows (with values or not), dense [rows x width] and classes [rows]; besides
    them index [examples], weights [examples], ignore_zero."""
    with netCDF4.Dataset(path, "w", format="NETCDF4") as file:
        file.datasets = np.uint32(len(sets))
        for n, one in enumerate(sets):
            kind = np.dtype("f4") if "values" in one else one["dense"].dtype if "dense" in one else np.dtype("u4")
            stored = len(one.get("rows", one.get("classes", one.get("dense"))))
            file.setncattr(f"name{n}", one["name"])
            for name, value in (("attributes", attributes_of(one)), ("dataType", DATA_TYPES[kind]), ("kind", 0), ("dimensions", 1),
                                ("width", one["width"])):
                file.setncattr(f"{name}{n}", np.uint32(value))
            examples = len(one.get("index", range(stored)))
            file.createDimension(f"examplesDim{n}", examples)
            rows = f"examplesDim{n}"
            if "index" in one:
                rows = f"uniqueExamplesDim{n}"
                file.createDimension(rows, stored)
                file.createVariable(f"index{n}", "u4", (f"examplesDim{n}",))[:] = np.asarray(one["index"], dtype=np.uint32)
            if "weights" in one:
                file.createVariable(f"dataWeight{n}", "f4", (f"examplesDim{n}",))[:] = np.asarray(one["weights"], dtype=np.float32)
            if "rows" in one:
                write_rows(file, n, one, rows)
            else:
                values = one["dense"].reshape(-1) if "dense" in one else np.asarray(one["classes"], dtype=np.uint32)
                file.createDimension(f"dataDim{n}", len(values))
                file.createVariable(f"data{n}", values.dtype, (f"dataDim{n}",))[:] = values


def seen(one, as_input):
    """[examples x width] in float64, which entries are stored, and the weights of the examples."""
    stored = len(one.get("rows", one.get("classes", one.get("dense"))))
    values, present = np.zeros((stored, one["width"])), np.ones((stored, one["width"]), dtype=bool)
    if "dense" in one:
        values[:, :] = one["dense"]
        if one["dense"].dtype == np.uint8:
            values = values / 256 - (0.5 if as_input else 0.0)
        elif one["dense"].dtype == np.int8:
            values = values / 128
        elif one["dense"].dtype == np.uint16:
            values = values / 65536 - (0.5 if as_input else 0.0)
    else:
        rows = one.get("rows", [[c] for c in one.get("classes", [])])
        present[:, :] = False
        for r, row in enumerate(rows):
            values[r, row] = np.asarray(one["values"][r], dtype=np.float32) if "values" in one else 1.0
            present[r, row] = True
    if "index" in one:
        values, present = values[one["index"]], present[one["index"]]
    weights = np.asarray(one["weights"], dtype=np.float32).astype(float) if "weights" in one else np.ones(len(values))
    return values, present, weights

# SPDX-License-Identifier: Apache-2.0
"""Writes and reads the files of the tests, independently of the programs: data sets by Debian's netCDF4."""
import netCDF4
import numpy as np


def write_datasets(path, sets):
    """sets: (name, width, rows, values or None); rows: a list of lists of unit numbers, one an example; or (name, [x, y, channels], bytes
    [examples x units], None) of images."""
    with netCDF4.Dataset(path, "w", format="NETCDF4") as file:
        file.datasets = np.uint32(len(sets))
        for n, (name, width, rows, values) in enumerate(sets):
            if isinstance(rows, np.ndarray):
                _write_images(file, n, name, width, rows)
                continue
            sizes = np.array([len(row) for row in rows], dtype=np.uint64)
            end = np.cumsum(sizes).astype(np.uint64)
            file.setncattr(f"name{n}", name)
            file.setncattr(f"attributes{n}", np.uint32(3 if values is None else 1))
            file.setncattr(f"dataType{n}", np.uint32(0 if values is None else 4))
            file.setncattr(f"kind{n}", np.uint32(0))
            file.setncattr(f"dimensions{n}", np.uint32(1))
            file.setncattr(f"width{n}", np.uint32(width))
            file.createDimension(f"examplesDim{n}", len(rows))
            file.createDimension(f"sparseDataDim{n}", int(end[-1]))
            start = file.createVariable(f"sparseStart{n}", "u8", (f"examplesDim{n}",))
            start[:] = end - sizes
            file.createVariable(f"sparseEnd{n}", "u8", (f"examplesDim{n}",))[:] = end
            index = file.createVariable(f"sparseIndex{n}", "u4", (f"sparseDataDim{n}",))
            index[:] = np.concatenate([np.asarray(row, dtype=np.uint32) for row in rows])
            if values is not None:
                data = file.createVariable(f"sparseData{n}", "f4", (f"sparseDataDim{n}",))
                data[:] = np.concatenate([np.asarray(row, dtype=np.float32) for row in values])


def _write_images(file, n, name, extent, images):
    attributes = {"name": name, "attributes": np.uint32(0), "dataType": np.uint32(8), "kind": np.uint32(1),
                  "dimensions": np.uint32(len(extent))}
    attributes |= {axis: np.uint32(units) for axis, units in zip(("width", "height", "length"), extent)}
    for key, value in attributes.items():
        file.setncattr(f"{key}{n}", value)
    file.createDimension(f"examplesDim{n}", len(images))
    file.createDimension(f"dataDim{n}", images.size)
    file.createVariable(f"data{n}", "u1", (f"dataDim{n}",))[:] = images.ravel()


def write_text(path, rows, names, examples=None, newline="\n"):
    """rows: lists of unit numbers; names: label of each unit."""
    with open(path, "w", newline="") as file:
        for e, row in enumerate(rows):
            label = examples[e] if examples else f"example{e}"
            file.write(label + "\t" + ":".join(names[u] for u in row) + newline)


def write_index(path, names):
    with open(path, "w") as file:
        for number, name in enumerate(names):
            file.write(f"{name}\t{number}\n")


def read_recommendations(path):
    """{example: [(feature, score), ...]}; checks the form of every line."""
    result = {}
    with open(path) as file:
        for line in file:
            example, _, rest = line.rstrip("\n").partition("\t")
            assert rest == "" or rest.endswith(":"), f"no colon at the end: {line!r}"
            pairs = [pair.rsplit(",", 1) for pair in rest.split(":")[:-1]]
            result[example] = [(feature, float(score)) for feature, score in pairs]
    return result


def model_arrays(path):
    """All variables of a model file as arrays, and its attributes."""
    with netCDF4.Dataset(path) as file:
        arrays = {name: np.array(variable[:]) for name, variable in file.variables.items()}
        return arrays, {name: file.getncattr(name) for name in file.ncattrs()}

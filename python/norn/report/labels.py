# SPDX-License-Identifier: Apache-2.0
"""Labels that files of data sets keep."""
from __future__ import annotations

import zlib

from ..errors import DataError
from .runs import lines_of


def labels_of(file, n):
    """The labels of set n; docs/user/formats.md."""
    n = int(getattr(file, f"featureLabelsOf{n}", n))
    if getattr(file, f"featureLabelsAreNumbers{n}", 0):
        return {unit: str(unit) for unit in range(int(getattr(file, f"width{n}")))}
    if f"featureLabels{n}" not in file.variables:
        raise DataError("`examples`: the run's data keep no labels; give the feature index with `features`")
    lines = zlib.decompress(file[f"featureLabels{n}"][:].tobytes())
    return dict(enumerate(lines_of(lines)))

# SPDX-License-Identifier: Apache-2.0
"""What is easily mistaken is refused with what was meant, where it had been taken for something else."""
import numpy as np
import pytest
import scipy.sparse as sp

import norn

SETTINGS = {"epochs": 1, "hidden": 4, "device": "cpu", "threads": 1}


@pytest.mark.parametrize("width_of", [lambda units: 1, lambda units: units - 1, lambda units: units + 1], ids=["one", "less", "more"])
def test_factors_and_pairs_have_a_column_for_each_unit(baskets, trained, width_of):
    width = width_of(baskets.units)
    users = baskets.matrix[:2]
    for given in (np.zeros(width), np.zeros((2, width)), sp.csr_matrix((2, width), dtype=np.float32)):
        with pytest.raises(norn.UsageError, match=rf"`score_factors`: has the shape \(2, {width}\), expected \(2, {baskets.units}\)"):
            trained.recommend(users, score_factors=given)
    with pytest.raises(norn.UsageError, match=rf"`filter_pairs`: has the shape \(2, {width}\), expected \(2, {baskets.units}\)"):
        trained.recommend(users, filter_pairs=sp.csr_matrix((2, width), dtype=np.float32))
    trained.recommend(users, score_factors=np.ones(baskets.units), filter_pairs=users)

# SPDX-License-Identifier: Apache-2.0
"""A few hundred random calls; fuzz_binding.py makes more."""
from fuzz_binding import KINDS, fuzz


def test_random_calls_end_in_answers_or_in_errors_that_are_meant(draw):
    counts = fuzz(300, int(draw.integers(2**31)))
    print(counts)
    for outcome in ("answered", "refused"):
        assert sum(count for (kind, what), count in counts.items() if what == outcome) > 60
    assert len({kind for kind, _ in counts}) > len(KINDS) // 2

# SPDX-License-Identifier: Apache-2.0
"""Which regions are tuned after which, and what each may spend. It is decided once a day, when the first step asks, by the sizes of the
texts: so it is the same whoever runs which step in which order."""
import math
import pathlib
import statistics

from .._files import read_json, write_json
from .days import Day
from .regions import Regions
from .step import day_pattern


def size_of(path: pathlib.Path) -> int:
    """Bytes of a text, or of a folder of texts; 0: it is not there."""
    try:
        return sum(file.stat().st_size for file in path.iterdir()) if path.is_dir() else path.stat().st_size
    except OSError:
        return 0


def waves_of(sizes: dict[str, int], count: int) -> list[list[str]]:
    """The largest first; each wave has about twice as many regions as the one before."""
    names = sorted(sizes, key=lambda name: (-sizes[name], name))
    count = min(count, max(1, len(names).bit_length()))
    ends = [math.ceil(len(names) * (2**k - 1) / (2**count - 1)) for k in range(count + 1)]
    return [wave for begin, end in zip(ends, ends[1:]) if (wave := names[begin:end])]


def shares_of(sizes: dict[str, int]) -> dict[str, float]:
    """Of all regions' budget, by the square root of their sizes."""
    roots = {name: math.sqrt(size) for name, size in sizes.items()}
    return {name: root / sum(roots.values()) for name, root in roots.items()}


class Plan:
    """Of a day. `sizes` of texts that are not there are the median of the others'; a region that comes later in the day is the last."""

    def __init__(self, regions: Regions, day: Day, lock):
        path = day.own / "plan.json"
        with lock:
            if not path.exists():
                write_json(path, {"sizes": self._sizes(regions, day)})
        tuned = [name for name in sorted(regions.regions) if regions.regions[name].trials]
        known: dict[str, int] = read_json(path)["sizes"]
        sizes, late = {name: known[name] for name in tuned if name in known}, [name for name in tuned if name not in known]
        self.waves = [*waves_of(sizes, regions.tune["Waves"] if regions.tune else 1), late]
        self.shares = shares_of(sizes)
        middle = statistics.median(self.shares.values() or [1.0])
        self.shares.update({name: middle for name in late})

    @staticmethod
    def _sizes(regions: Regions, day: Day) -> dict[str, int]:
        sizes = {name: size_of(day_pattern(region.text, day.day)) for name, region in regions.regions.items()}
        middle = int(statistics.median([size for size in sizes.values() if size] or [1]))
        return {name: max(1, size or middle) for name, size in sizes.items()}

    def before(self, name: str) -> list[str]:
        """Regions of earlier waves."""
        at = next(k for k, wave in enumerate(self.waves) if name in wave)
        return [other for wave in self.waves[:at] for other in wave]

# SPDX-License-Identifier: Apache-2.0
"""What is made every day for all regions: `Day`, and what the program daily is made of."""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .day import Day as Day, Outcome as Outcome
    from .regions import Regions as Regions
else:
    from .._lazy import lazy

    _HOMES = {"day": ("Day", "Outcome"), "regions": ("Regions",)}
    __all__, __getattr__, __dir__ = lazy(globals(), _HOMES)

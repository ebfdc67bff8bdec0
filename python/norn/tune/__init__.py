# SPDX-License-Identifier: Apache-2.0
"""Searches for settings: `Study`, and what the program tuner is made of."""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .studies import Best as Best, Study as Study
else:
    from .._lazy import lazy

    _HOMES = {"studies": ("Study", "Best")}
    __all__, __getattr__, __dir__ = lazy(globals(), _HOMES)

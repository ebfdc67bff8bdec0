# SPDX-License-Identifier: Apache-2.0
"""A page of what a training recorded."""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .writing import write as write
else:
    from .._lazy import lazy

    _HOMES = {"writing": ("write",)}
    __all__, __getattr__, __dir__ = lazy(globals(), _HOMES)

# SPDX-License-Identifier: Apache-2.0
"""Names of types that many modules use. Nothing is imported here at run time."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[Any]
    Facts: TypeAlias = dict[str, Any]  # as JSON, or the engine, gives it

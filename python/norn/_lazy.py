# SPDX-License-Identifier: Apache-2.0
"""Names of a package that are imported when they are first used."""
from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazy(package: dict[str, Any], homes: Mapping[str, Sequence[str]],
         modules: Sequence[str] = ()) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """__all__, __getattr__ and __dir__ of a package with these globals; names by the module of the package that has them, and
    modules that are names themselves, but none of __all__."""
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name in modules:
            return importlib.import_module(f"{package['__name__']}.{name}")
        if name not in home_of:
            raise AttributeError(f"module '{package['__name__']}' has no attribute '{name}'")
        package[name] = getattr(importlib.import_module(f"{package['__name__']}.{home_of[name]}"), name)
        return package[name]

    return list(home_of), get, lambda: sorted({*package, *home_of, *modules})

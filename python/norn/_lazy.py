# SPDX-License-Identifier: Apache-2.0
"""Names of a package that are imported when they are first used."""
from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_UNBUILT = ("the native module of norn is not here: only norn.tune, norn.daily and norn.report are. pip install . builds it, and so does "
            "CMake with nanobind (docs/user/building.md)")


def require_processor(package: str) -> None:
    """ImportError on a processor that lacks what the native module was built for, before that is loaded. Without a native module any will
    do."""
    try:
        importlib.import_module("._processor", package)
    except ModuleNotFoundError as error:
        if error.name != f"{package}._processor":
            raise


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
        try:
            package[name] = getattr(importlib.import_module(f"{package['__name__']}.{home_of[name]}"), name)
        except ImportError as error:
            from importlib.util import find_spec

            if "_core" not in str(error) or find_spec("norn._core"):
                raise
            raise ImportError(_UNBUILT) from error
        return package[name]

    return list(home_of), get, lambda: sorted({*package, *home_of, *modules})

# SPDX-License-Identifier: Apache-2.0
"""Trains very wide, sparse neural networks, and recommends with them.

Names are imported when they are first used: `import norn` takes no time.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from ._lazy import lazy, require_processor

require_processor(__name__)

if TYPE_CHECKING:  # what checkers and editors see; tests/python/types_test.py compares it with the table below
    from . import (callbacks as callbacks, daily as daily, errors as errors, implicit as implicit, interchange as interchange,
                   report as report,
                   spark as spark, tune as tune)
    # By the whole name: `from ._core` would make _core a private name of this module to pyright.
    from norn._core import show_config as show_config, version as version
    from ._comparison import Comparison as Comparison, Difference as Difference, compare as compare
    from ._evaluation import Evaluation as Evaluation
    from norn._settings import settings as settings
    from .callbacks import (Callback as Callback, Environment as Environment, StopTraining as StopTraining, checkpoints as checkpoints,
                            early_stopping as early_stopping, mlflow_run as mlflow_run, progress as progress, reset_rate as reset_rate,
                            run_folder as run_folder, wandb_run as wandb_run)
    from .dataset import Dataset as Dataset
    from .errors import (CommunicationError as CommunicationError, DataError as DataError, DeviceError as DeviceError,
                         DivergenceError as DivergenceError, Error as Error, UsageError as UsageError)
    from .explaining import Explanation as Explanation
    from .history import History as History
    from .images import Images as Images, read_images as read_images
    from .interchange import (export_onnx as export_onnx, export_safetensors as export_safetensors, import_caffe as import_caffe,
                              import_keras as import_keras, import_onnx as import_onnx, import_safetensors as import_safetensors,
                              import_torch as import_torch)
    from .linear import Ease as Ease
    from .network import Network as Network
    from .tables import TableStream as TableStream
    from .vectors import Vectors as Vectors
    from .popularity import most_popular as most_popular
    from .loading import load as load
    from .recommender import Recommender as Recommender
    from .training import train as train

    __version__: str
else:
    _HOMES = {
        "recommender": ("Recommender",),
        "loading": ("load",),
        "popularity": ("most_popular",),
        "dataset": ("Dataset",),
        "linear": ("Ease",),
        "network": ("Network",),
        "tables": ("TableStream",),
        "vectors": ("Vectors",),
        "training": ("train",),
        "explaining": ("Explanation",),
        "history": ("History",),
        "images": ("Images", "read_images"),
        "_comparison": ("compare", "Comparison", "Difference"),
        "_evaluation": ("Evaluation",),
        "callbacks": ("early_stopping", "progress", "run_folder", "checkpoints", "reset_rate", "mlflow_run", "wandb_run", "Callback",
                      "Environment",
                      "StopTraining"),
        "interchange": ("export_onnx", "import_onnx", "export_safetensors", "import_safetensors", "import_torch", "import_keras",
                        "import_caffe"),
        "errors": ("Error", "UsageError", "DataError", "DeviceError", "CommunicationError", "DivergenceError"),
        "_settings": ("settings",),
        "_core": ("version", "show_config", "__version__"),
    }
    _MODULES = ("callbacks", "daily", "errors", "implicit", "interchange", "report", "spark", "tune")
    __all__, __getattr__, __dir__ = lazy(globals(), _HOMES, _MODULES)

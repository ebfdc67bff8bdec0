# SPDX-License-Identifier: Apache-2.0
"""python -m norn"""
import sys

from .cli import main

sys.exit(main())

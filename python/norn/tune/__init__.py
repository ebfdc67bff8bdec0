# SPDX-License-Identifier: Apache-2.0
"""Search over the settings of a network: what tools/tuner.py is made of. docs/user/tuner.md is for who uses it."""

# SPDX-License-Identifier: Apache-2.0
"""The parts of the program daily. A step is a command that can be repeated: what it has made is not made again."""

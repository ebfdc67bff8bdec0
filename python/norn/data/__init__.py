# SPDX-License-Identifier: Apache-2.0
"""From tables and files to the entries of a data set; norn.Dataset is the way in."""

# SPDX-License-Identifier: Apache-2.0
"""The page of a study: tuner --report. Its drawing code is that of a run's page, norn.report."""

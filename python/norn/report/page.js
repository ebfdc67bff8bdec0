// SPDX-License-Identifier: Apache-2.0
// The page of a run: charts alone.
"use strict";
drawing.themeButton(document.getElementById("theme"));
document.body.dataset.drawn = drawing.drawCharts();

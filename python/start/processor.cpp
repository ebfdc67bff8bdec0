// SPDX-License-Identifier: Apache-2.0
// Module norn._processor, which has nothing but this: its import fails on a processor that lacks
// what the build was made for. `norn` imports it before the engine's library, whose initialisers
// may already use such instructions. Compiled for the oldest x86-64.
#include "tools/common/cpu_features.h"

#include <Python.h>

namespace {

int check_processor(PyObject*) {
  using namespace norn::tools;
  char text[1024];
  if (!describe_missing(kNeededCpuFeatures, present_cpu_features(), text, sizeof(text))) return 0;
  PyErr_SetString(PyExc_ImportError, text);
  return -1;
}

PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(&check_processor)}, {0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT,
                      "norn._processor",
                      "Imported, it says that this processor has what the build needs.",
                      0,
                      nullptr,
                      slots,
                      nullptr,
                      nullptr,
                      nullptr};

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): Python looks for it by this name
PyMODINIT_FUNC PyInit__processor() {
  return PyModuleDef_Init(&module);
}

// SPDX-License-Identifier: Apache-2.0
// What the kernels are computed with.
#include "kernels/common/cuda_version.h"
#include "src/base/library_version.h"

#include <string_view>

#include <cblas.h>

namespace norn {

std::vector<LibraryVersion> kernel_libraries() {
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."; the name once.
  std::string_view blas = openblas_get_config();
  constexpr std::string_view kName = "OpenBLAS ";
  if (blas.starts_with(kName)) blas.remove_prefix(kName.size());
  std::string text(blas.substr(0, blas.find_last_not_of(' ') + 1));
  text += ", kernels for ";
  text += openblas_get_corename();
  return {
      {"CUDA", cuda_version()}, {"GPU architectures", cuda_architectures()}, {"OpenBLAS", text}};
}

}  // namespace norn

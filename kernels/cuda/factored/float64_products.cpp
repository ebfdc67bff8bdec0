// SPDX-License-Identifier: Apache-2.0
// Products of float64 matrices. Rows may begin at any element: algorithms are asked for that take
// operands at 8 bytes, so that which one is chosen does not follow from where something stands.
#include "kernels/cuda/factored/float64_products.h"

#include "kernels/cuda/dense/dense_plan.h"
#include "norn/base/error.h"

#include <fmt/format.h>

namespace norn::cuda {
namespace {

constexpr Index kWorkspace = Index(32) << 20;

// In the library's view: column-major, so that a row-major matrix is its own transpose.
void make_layout(cublasLtMatrixLayout_t& made, MatrixView<const double> m) {
  check_blas(cublasLtMatrixLayoutCreate(&made, CUDA_R_64F, std::uint64_t(m.cols),
                                        std::uint64_t(m.rows), std::max(m.stride, m.cols)),
             "cublasLtMatrixLayoutCreate");
}

}  // namespace

struct Float64Products::Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};

  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    for (cublasLtMatrixLayout_t layout : {a, b, c})
      if (layout) cublasLtMatrixLayoutDestroy(layout);
    if (operation) cublasLtMatmulDescDestroy(operation);
  }
  void set(cublasLtMatmulDescAttributes_t attribute, cublasOperation_t value) {
    check_blas(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value),
               "cublasLtMatmulDescSetAttribute");
  }
};

Float64Products::Float64Products(const Stream& stream) : stream_(stream) {
  check_blas(cublasLtCreate(&handle_), "cublasLtCreate");
}

Float64Products::~Float64Products() {
  plans_.clear();
  cublasLtDestroy(handle_);
}

void Float64Products::multiply(double scale, const Operand& a, const Operand& b, double keep,
                               MatrixView<double> c) {
  const Index depth = a.transposed ? a.matrix.rows : a.matrix.cols;
  if (c.empty() || (depth == 0 && keep == 1.0)) return;
  if (depth == 0) {
    check(cudaMemset2DAsync(c.data, std::size_t(c.stride) * sizeof(double), 0,
                            std::size_t(c.cols) * sizeof(double), std::size_t(c.rows),
                            stream_.stream),
          "cudaMemset2DAsync");
    return;
  }
  const Key key = {c.rows,          c.cols,   depth,       a.matrix.stride,    Index(a.transposed),
                   b.matrix.stride, c.stride, keep != 0.0, Index(b.transposed)};
  if (workspace_.empty()) workspace_ = Buffer<std::byte>(kWorkspace, stream_.memory);
  std::unique_ptr<Plan>& plan = plans_[key];
  if (!plan) plan = make_plan(a, b, c);
  // c' = b' a', as the library sees them.
  check_blas(cublasLtMatmul(handle_, plan->operation, &scale, b.matrix.data, plan->a, a.matrix.data,
                            plan->b, &keep, c.data, plan->c, c.data, plan->c, &plan->algorithm,
                            workspace_.data(), std::size_t(kWorkspace), stream_.stream),
             "cublasLtMatmul");
}

std::unique_ptr<Float64Products::Plan> Float64Products::make_plan(const Operand& a,
                                                                  const Operand& b,
                                                                  MatrixView<double> c) {
  auto plan = std::make_unique<Plan>();
  check_blas(cublasLtMatmulDescCreate(&plan->operation, CUBLAS_COMPUTE_64F, CUDA_R_64F),
             "cublasLtMatmulDescCreate");
  plan->set(CUBLASLT_MATMUL_DESC_TRANSA, b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  plan->set(CUBLASLT_MATMUL_DESC_TRANSB, a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  make_layout(plan->a, b.matrix);
  make_layout(plan->b, a.matrix);
  make_layout(plan->c, c);
  cublasLtMatmulPreference_t preference = nullptr;
  check_blas(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                        cublasStatus_t (*)(cublasLtMatmulPreference_t)>
      owner(preference, cublasLtMatmulPreferenceDestroy);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check_blas(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
               "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t(kWorkspace));
  for (auto alignment :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(alignment, std::uint32_t(sizeof(double)));
  constexpr int kWanted = 8;
  cublasLtMatmulHeuristicResult_t found[kWanted];
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, plan->operation, plan->a, plan->b, plan->c, plan->c,
                                     preference, kWanted, found, &count);
  for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; ++i) {
    if (found[i].state != CUBLAS_STATUS_SUCCESS || adds_in_place(found[i].algo)) continue;
    plan->algorithm = found[i].algo;
    return plan;
  }
  throw DeviceError(
      fmt::format("cuBLASLt has no algorithm for a product of [{} x {}] and [{} x {}] in float64",
                  a.matrix.rows, a.matrix.cols, b.matrix.rows, b.matrix.cols));
}

}  // namespace norn::cuda

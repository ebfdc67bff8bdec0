// SPDX-License-Identifier: Apache-2.0
// The CPU's kernels, to be tested.
#include "kernels/cpu/families.h"
#include "tests/kernels/device.h"

namespace norn::samples {

std::unique_ptr<DenseKernels> make_dense(Executor& executor) {
  return make_cpu_dense(executor);
}
std::unique_ptr<SparseKernels> make_sparse(Executor& executor) {
  return make_cpu_sparse(executor);
}
std::unique_ptr<BatchKernels> make_batch(Executor& executor) {
  return make_cpu_batch(executor);
}
std::unique_ptr<PointwiseKernels> make_pointwise(Executor& executor) {
  return make_cpu_pointwise(executor);
}
std::unique_ptr<FixedKernels> make_fixed(Executor& executor) {
  return make_cpu_fixed(executor);
}
std::unique_ptr<NormalizationKernels> make_normalization(Executor& executor) {
  return make_cpu_normalization(executor);
}
std::unique_ptr<CostKernels> make_cost(Executor& executor) {
  return make_cpu_cost(executor);
}
std::unique_ptr<UpdateKernels> make_update(Executor& executor) {
  return make_cpu_update(executor);
}
std::unique_ptr<SelectKernels> make_select(Executor& executor) {
  return make_cpu_select(executor);
}

std::unique_ptr<FactoredKernels> make_factored(Executor& executor) {
  return make_cpu_factored(executor);
}
std::unique_ptr<ConvolutionKernels> make_convolution(Executor& executor) {
  return make_cpu_convolution(executor);
}
std::unique_ptr<PoolingKernels> make_pooling(Executor& executor) {
  return make_cpu_pooling(executor);
}
std::unique_ptr<RunSumKernels> make_run_sums(Executor& executor) {
  return make_cpu_run_sums(executor);
}
bool is_gpu() {
  return false;
}
bool sums_like_the_cpu() {
  return true;
}

}  // namespace norn::samples

// SPDX-License-Identifier: Apache-2.0
// Plans of dense products: layouts for cuBLASLt and the algorithm of each shape.
#include "kernels/cuda/dense/dense_plan.h"

#include "norn/base/error.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace norn::cuda {

void check_blas(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw DeviceError(
        fmt::format("{} failed: {} ({})", call, cublasLtGetStatusName(status), int(status)));
}

bool adds_in_place(const cublasLtMatmulAlgo_t& algorithm) {
  std::uint32_t scheme = 0;
  std::size_t written = 0;
  check_blas(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                                  &scheme, sizeof scheme, &written),
             "cublasLtMatmulAlgoConfigGetAttribute");
  return scheme == CUBLASLT_REDUCTION_SCHEME_INPLACE;
}

namespace {

int lowest_bit(Index bits) {
  return int(bits & (~bits + 1));
}

/// The least length from `least` elements on whose bytes are a multiple of `alignment`, and where
/// that is less than 16 of no larger power of two: what an operand of that alignment may have.
Index like(Index least, int alignment, Index element_bytes) {
  const Index unit = std::max<Index>(1, alignment / element_bytes);
  Index length = (least + unit - 1) / unit * unit;
  if (alignment < 16 && length * element_bytes % (2 * alignment) == 0) length += unit;
  return length;
}

/// The three layouts of a product.
struct Layouts {
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t b = nullptr;
  cublasLtMatrixLayout_t c = nullptr;

  Layouts() = default;
  Layouts(const Layouts&) = delete;
  Layouts& operator=(const Layouts&) = delete;
  ~Layouts() {
    for (cublasLtMatrixLayout_t layout : {a, b, c})
      if (layout) cublasLtMatrixLayoutDestroy(layout);
  }
};

void make_layout(cublasLtMatrixLayout_t& made, cudaDataType_t type, Index rows, Index cols,
                 Index stride) {
  check_blas(cublasLtMatrixLayoutCreate(&made, type, std::uint64_t(rows), std::uint64_t(cols),
                                        std::max({stride, rows, Index(1)})),
             "cublasLtMatrixLayoutCreate");
}

void set_blocks(cublasLtMatrixLayout_t layout, Index blocks, Index step) {
  const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, auto value) {
    check_blas(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof value),
               "cublasLtMatrixLayoutSetAttribute");
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, std::int32_t(blocks));
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, std::int64_t(step));
}

void make_layouts(Layouts& made, const DensePlans::Task& task, bool rounds) {
  const cudaDataType_t type = rounds ? CUDA_R_16BF : CUDA_R_32F;
  const MatrixView<float>& c = task.result;
  make_layout(made.a, type, task.a.rows, task.a.cols, task.a.stride);
  make_layout(made.b, type, task.b.rows, task.b.cols, task.b.stride);
  make_layout(made.c, CUDA_R_32F, c.cols, c.rows, c.stride);
  if (task.along != Along::depth) return;
  set_blocks(made.a, task.blocks, task.a.step);
  set_blocks(made.b, task.blocks, task.b.step);
  set_blocks(made.c, task.blocks, task.step);
}

}  // namespace

Side Side::part(bool along_rows, Index first, Index count, Index element_bytes) const {
  Side cut = *this;
  (along_rows ? cut.rows : cut.cols) = count;
  cut.data = static_cast<const char*>(data) + (along_rows ? first : first * stride) * element_bytes;
  return cut;
}

Side Side::units(bool along_rows, Index first, Index count, Index block,
                 Index element_bytes) const {
  Side cut = part(along_rows, first, count, element_bytes);
  cut.step = along_rows ? block : block * stride;
  const Index begin = along_rows ? first : first * stride;
  cut.alignment = lowest_bit(alignment | (begin | cut.step) * element_bytes);
  return cut;
}

int DensePlans::Task::alignment() const {
  const Index apart = step | (along == Along::columns ? block : 0);
  return lowest_bit(alignment_of(result.data, result.stride) | apart * Index(sizeof(float)));
}

DensePlans::Task DensePlans::Task::of_blocks(Index count) const {
  Task made = *this;
  const Index units = count * block;
  if (along == Along::columns) (a.transposed ? made.a.cols : made.a.rows) = units;
  if (along == Along::columns) made.result.cols = units;
  if (along == Along::rows) (b.transposed ? made.b.rows : made.b.cols) = units;
  if (along == Along::rows) made.result.rows = units;
  if (along == Along::depth) made.blocks = count;
  return made;
}

DensePlans::Task DensePlans::Task::of_rows(Index count) const {
  Task made = *this;
  made.b.cols = made.result.rows = count;
  return made;
}

DensePlans::Task DensePlans::Task::planned() const {
  const Task most = of_blocks(kMostBlocks);
  return planned_rows > 0 ? most.of_rows(planned_rows) : most;
}

DensePlans::Task DensePlans::Task::alone(Index element_bytes) const {
  Task made = *this;
  for (Side* side : {&made.a, &made.b}) {
    side->stride = like(side->rows, side->alignment, element_bytes);
    if (side->step != 0)
      side->step = like(side->stride * side->cols, side->alignment, element_bytes);
  }
  made.result.stride = like(result.cols, alignment(), sizeof(float));
  made.step = like(made.result.stride * result.rows, alignment(), sizeof(float));
  return made;
}

struct DensePlans::Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  Layouts layouts;
  cublasLtMatmulAlgo_t algorithm{};

  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    if (operation) cublasLtMatmulDescDestroy(operation);
  }
  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    check_blas(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value),
               "cublasLtMatmulDescSetAttribute");
  }
};

DensePlans::DensePlans(const Stream& stream)
    : stream_(stream), workspace_(kWorkspace, stream.memory) {
  check_blas(cublasLtCreate(&handle_), "cublasLtCreate");
}

DensePlans::~DensePlans() {
  plans_.clear();
  cublasLtDestroy(handle_);
}

DensePlans::Key DensePlans::key_of(const Task& task) {
  const auto& [a, b, c, scale, keep, bias, along, block, blocks, step, planned_rows] = task;
  return {a.rows,
          a.cols,
          a.stride,
          a.step,
          Index(a.alignment),
          Index(a.transposed),
          b.rows,
          b.cols,
          b.stride,
          b.step,
          Index(b.alignment),
          Index(b.transposed),
          c.rows,
          c.cols,
          c.stride,
          Index(task.alignment()),
          Index(keep != 0.0f),
          Index(bias != nullptr),
          Index(along),
          block,
          blocks,
          step,
          planned_rows};
}

void DensePlans::multiply(const Task& task) {
  std::unique_ptr<Plan>& plan = plans_[key_of(task)];
  if (!plan) plan = make_plan(task);
  if (task.bias != nullptr) plan->set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, task.bias);
  check_blas(cublasLtMatmul(handle_, plan->operation, &task.scale, task.a.data, plan->layouts.a,
                            task.b.data, plan->layouts.b, &task.keep, task.result.data,
                            plan->layouts.c, task.result.data, plan->layouts.c, &plan->algorithm,
                            workspace_.data(), std::size_t(kWorkspace), stream_.stream),
             "cublasLtMatmul");
}

std::unique_ptr<DensePlans::Plan> DensePlans::make_plan(const Task& task) {
  auto plan = std::make_unique<Plan>();
  const cublasComputeType_t compute =
      stream_.precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check_blas(cublasLtMatmulDescCreate(&plan->operation, compute, CUDA_R_32F),
             "cublasLtMatmulDescCreate");
  plan->set(CUBLASLT_MATMUL_DESC_TRANSA, task.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  plan->set(CUBLASLT_MATMUL_DESC_TRANSB, task.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (task.bias != nullptr) {
    plan->set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    plan->set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, task.bias);
  }
  make_layouts(plan->layouts, task, rounds());
  choose_algorithm(*plan, task);
  return plan;
}

bool DensePlans::takes(const Plan& plan, const Task& task,
                       const cublasLtMatmulAlgo_t& algorithm) const {
  Layouts layouts;
  make_layouts(layouts, task.alone(element_bytes()), rounds());
  cublasLtMatmulHeuristicResult_t result{};
  return cublasLtMatmulAlgoCheck(handle_, plan.operation, layouts.a, layouts.b, layouts.c,
                                 layouts.c, &algorithm, &result) == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= std::size_t(kWorkspace);
}

// Whether an algorithm for kMostBlocks blocks does for fewer, and one for planned_rows rows for
// other numbers of them. Which numbers are tried must not follow from the task.
bool DensePlans::takes_others(const Plan& plan, const Task& task,
                              const cublasLtMatmulAlgo_t& algorithm) const {
  constexpr Index kRows[] = {1, 2, 3, 4, 5, 8, 13, 16, 31, 64, 100, 128, 1000, 1024};
  const Task planned = task.planned();
  for (Index blocks = 1; task.along != Along::nothing && blocks < kMostBlocks; ++blocks)
    if (!takes(plan, planned.of_blocks(blocks), algorithm)) return false;
  for (Index i = 0; task.planned_rows > 0 && i < Index(std::size(kRows)); ++i)
    if (!takes(plan, planned.of_rows(kRows[i]), algorithm)) return false;
  return true;
}

void DensePlans::choose_algorithm(Plan& plan, const Task& task) {
  const Key planned = key_of(task.planned().alone(element_bytes()));
  if (const auto known = of_rows_.find(planned); task.planned_rows > 0 && known != of_rows_.end()) {
    plan.algorithm = known->second;
    return;
  }
  cublasLtMatmulPreference_t preference = nullptr;
  check_blas(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                        cublasStatus_t (*)(cublasLtMatmulPreference_t)>
      owner(preference, cublasLtMatmulPreferenceDestroy);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check_blas(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
               "cublasLtMatmulPreferenceSetAttribute");
  };
  const auto alignment = std::uint32_t(task.alignment());
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t(kWorkspace));
  // The library may leave open into how many parts it splits a sum: that would follow from how many
  // blocks or rows there are.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         std::uint32_t(task.along == Along::nothing && task.planned_rows == 0
                           ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                           : CUBLASLT_REDUCTION_SCHEME_NONE));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t(task.a.alignment));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, std::uint32_t(task.b.alignment));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  Layouts layouts;
  make_layouts(layouts, task.planned().alone(element_bytes()), rounds());
  constexpr int kWanted = 8;
  cublasLtMatmulHeuristicResult_t found[kWanted];
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, plan.operation, layouts.a, layouts.b, layouts.c,
                                     layouts.c, preference, kWanted, found, &count);
  for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; ++i) {
    if (found[i].state != CUBLAS_STATUS_SUCCESS || adds_in_place(found[i].algo) ||
        !takes_others(plan, task, found[i].algo))
      continue;
    plan.algorithm = found[i].algo;
    if (task.planned_rows > 0) of_rows_.emplace(planned, plan.algorithm);
    return;
  }
  throw DeviceError(
      fmt::format("cuBLASLt has no algorithm for a product of [{} x {}] and [{} x {}] in {}",
                  task.a.rows, task.a.cols, task.b.rows, task.b.cols, name_of(stream_.precision)));
}

}  // namespace norn::cuda

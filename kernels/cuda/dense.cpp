// SPDX-License-Identifier: Apache-2.0
// Dense products by cuBLASLt. Every shape gets one algorithm, chosen by the library's own rules;
// where it splits a sum among thread blocks, the parts are added in a fixed order: a product has
// the same bits in every run. Tensor cores want rows of 16 bytes: edges that are none are products
// of their own.
#include "norn/kernels/dense.h"

#include "kernels/cuda/families.h"
#include "kernels/cuda/turn.h"
#include "norn/kernels/pointwise.h"

#include <map>
#include <string>
#include <tuple>

#include <cublasLt.h>
#include <fmt/format.h>

namespace norn::cuda {
namespace {

void check_blas(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw DeviceError(
        fmt::format("{} failed: {} ({})", call, cublasLtGetStatusName(status), int(status)));
}

/// The largest power of two, at most 16, that divides an address and a row of `stride` elements.
template <typename T>
int alignment_of(const T* data, Index stride) {
  const auto bits = reinterpret_cast<std::uintptr_t>(data) |
                    std::uintptr_t(stride * Index(sizeof(T))) | std::uintptr_t(16);
  return int(bits & (~bits + 1));
}

/// One operand in the library's view: column-major, so a row-major matrix is its own transpose.
struct Side {
  const void* data = nullptr;
  Index rows = 0;  ///< contiguous direction
  Index cols = 0;
  Index stride = 0;
  int alignment = 16;
  bool transposed = false;

  /// Elements [first, first + count) along k of the product, or across it. The first is a multiple
  /// of 16 bytes: the alignment stays.
  Side part(bool along_rows, Index first, Index count, Index element_bytes) const {
    Side cut = *this;
    (along_rows ? cut.rows : cut.cols) = count;
    cut.data =
        static_cast<const char*>(data) + (along_rows ? first : first * stride) * element_bytes;
    return cut;
  }
};

/// The extents of a product in the library's view: result [columns x rows], sums over depth.
struct Extents {
  Index columns = 0;
  Index rows = 0;
  Index depth = 0;
};

Index round_up(Index value, Index multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
Index round_down(Index value, Index multiple) {
  return value / multiple * multiple;
}

/// What a plan is made for.
using Key = std::tuple<Index, Index, Index, Index, Index, Index, Index, Index, Index, int, int, int,
                       bool, bool, bool, bool>;

struct Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t b = nullptr;
  cublasLtMatrixLayout_t c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};

  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    if (c) cublasLtMatrixLayoutDestroy(c);
    if (b) cublasLtMatrixLayoutDestroy(b);
    if (a) cublasLtMatrixLayoutDestroy(a);
    if (operation) cublasLtMatmulDescDestroy(operation);
  }
};

class CudaDense final : public DenseKernels {
 public:
  explicit CudaDense(const Stream& stream)
      : stream_(stream),
        pointwise_(make_pointwise(stream)),
        first_(stream.memory),
        second_(stream.memory),
        first_turned_(stream.memory),
        second_turned_(stream.memory),
        workspace_(kWorkspace, stream.memory) {
    check_blas(cublasLtCreate(&handle_), "cublasLtCreate");
  }
  ~CudaDense() override {
    plans_.clear();
    cublasLtDestroy(handle_);
  }

 private:
  static constexpr Index kWorkspace = Index(64) << 20;

  bool rounds() const { return stream_.precision == Precision::bf16; }

  Side side_of(const DenseOperand& operand, bool transposed, Scratch<Bfloat16>& scratch) {
    if (!rounds()) {
      const MatrixView<const float>& m = operand.values;
      return {m.data, m.cols, m.rows, m.stride, alignment_of(m.data, m.stride), transposed};
    }
    MatrixView<const Bfloat16> m = operand.rounded;
    if (m.data == nullptr) {
      // Rows of a copy are padded so that they stay aligned.
      const Index stride = round_up(operand.cols(), 8);
      const MatrixView<Bfloat16> copy{scratch.reserve(operand.rows() * stride), operand.rows(),
                                      operand.cols(), stride};
      pointwise_->round(operand.values, copy);
      m = copy;
    }
    return {m.data, m.cols, m.rows, m.stride, alignment_of(m.data, m.stride), transposed};
  }

  Index element_bytes() const { return rounds() ? sizeof(Bfloat16) : sizeof(float); }

  // What is left of the extents when only whole runs of 16 bytes count: all of them where that
  // would gain nothing.
  Extents whole_runs(const Side& a, const Side& b, MatrixView<float> result, Extents all) const {
    constexpr double kLeastProduct = 1 << 24;  // multiplications
    if (stream_.precision == Precision::fp32 || a.alignment < 16 || b.alignment < 16 ||
        alignment_of(result.data, result.stride) < 16 ||
        double(all.columns) * double(all.rows) * double(all.depth) < kLeastProduct)
      return all;
    const Index run = 16 / element_bytes();
    const Index column_run = a.transposed ? 16 / Index(sizeof(float)) : run;
    Extents whole = all;
    whole.columns = round_down(all.columns, column_run);
    if (b.transposed) whole.rows = round_down(all.rows, run);
    if (a.transposed || !b.transposed) whole.depth = round_down(all.depth, run);
    return whole.columns == 0 || whole.rows == 0 || whole.depth == 0 ? all : whole;
  }

  // In the library's view: result [columns x rows] = a * b.
  void product(const Side& a, const Side& b, float scale, float keep, MatrixView<float> result,
               const float* bias = nullptr) {
    if (result.empty()) return;
    const Extents all{result.cols, result.rows, b.transposed ? b.cols : b.rows};
    if (all.depth == 0) {
      if (keep == 0.0f) fill_zero(result);
      return;
    }
    const Extents whole = whole_runs(a, b, result, all);
    const auto part_of = [&](Index column, Index columns, Index row, Index rows, Index k,
                             Index depth, bool begins) {
      if (columns == 0 || rows == 0 || depth == 0) return;
      const Index bytes = element_bytes();
      const Side part_a =
          a.part(!a.transposed, column, columns, bytes).part(a.transposed, k, depth, bytes);
      const Side part_b =
          b.part(b.transposed, row, rows, bytes).part(!b.transposed, k, depth, bytes);
      multiply_part(part_a, part_b, scale, begins ? keep : 1.0f,
                    result.row_range(row, rows).columns(column, columns),
                    begins && bias != nullptr ? bias + column : nullptr);
    };
    const Index last_rows = all.rows - whole.rows;
    part_of(0, whole.columns, 0, whole.rows, 0, whole.depth, true);
    part_of(0, whole.columns, 0, whole.rows, whole.depth, all.depth - whole.depth, false);
    part_of(whole.columns, all.columns - whole.columns, 0, whole.rows, 0, all.depth, true);
    part_of(0, all.columns, whole.rows, last_rows, 0, all.depth, true);
  }

  void multiply_part(const Side& a, const Side& b, float scale, float keep,
                     MatrixView<float> result, const float* bias) {
    const int alignment = alignment_of(result.data, result.stride);
    const Key key{a.rows,       a.cols,       a.stride,      b.rows,         b.cols,      b.stride,
                  result.rows,  result.cols,  result.stride, a.alignment,    b.alignment, alignment,
                  a.transposed, b.transposed, keep != 0.0f,  bias != nullptr};
    std::unique_ptr<Plan>& plan = plans_[key];
    if (!plan) plan = make_plan(a, b, result, alignment, bias);
    if (bias != nullptr) set(*plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    check_blas(cublasLtMatmul(handle_, plan->operation, &scale, a.data, plan->a, b.data, plan->b,
                              &keep, result.data, plan->c, result.data, plan->c, &plan->algorithm,
                              workspace_.data(), std::size_t(kWorkspace), stream_.stream),
               "cublasLtMatmul");
  }

  void fill_zero(MatrixView<float> m) {
    check(
        cudaMemset2DAsync(m.data, std::size_t(m.stride) * sizeof(float), 0,
                          std::size_t(m.cols) * sizeof(float), std::size_t(m.rows), stream_.stream),
        "cudaMemset2DAsync");
  }

  template <typename T>
  static void set(Plan& plan, cublasLtMatmulDescAttributes_t attribute, T value) {
    check_blas(cublasLtMatmulDescSetAttribute(plan.operation, attribute, &value, sizeof value),
               "cublasLtMatmulDescSetAttribute");
  }

  std::unique_ptr<Plan> make_plan(const Side& a, const Side& b, MatrixView<float> result,
                                  int alignment, const float* bias) {
    auto plan = std::make_unique<Plan>();
    const cublasComputeType_t compute =
        stream_.precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const cudaDataType_t type = rounds() ? CUDA_R_16BF : CUDA_R_32F;
    check_blas(cublasLtMatmulDescCreate(&plan->operation, compute, CUDA_R_32F),
               "cublasLtMatmulDescCreate");
    set(*plan, CUBLASLT_MATMUL_DESC_TRANSA, a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(*plan, CUBLASLT_MATMUL_DESC_TRANSB, b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (bias != nullptr) {
      set(*plan, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(*plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    }
    const auto layout = [&](cublasLtMatrixLayout_t& made, cudaDataType_t of, Index rows, Index cols,
                            Index stride) {
      check_blas(cublasLtMatrixLayoutCreate(&made, of, std::uint64_t(rows), std::uint64_t(cols),
                                            std::max({stride, rows, Index(1)})),
                 "cublasLtMatrixLayoutCreate");
    };
    layout(plan->a, type, a.rows, a.cols, a.stride);
    layout(plan->b, type, b.rows, b.cols, b.stride);
    layout(plan->c, CUDA_R_32F, result.cols, result.rows, result.stride);
    choose_algorithm(*plan, a, b, alignment);
    return plan;
  }

  // Whether parts of a sum are added to the result in the order in which thread blocks end. Parts
  // that go through the workspace are added in their own order.
  static bool adds_in_place(const cublasLtMatmulAlgo_t& algorithm) {
    std::uint32_t scheme = 0;
    std::size_t written = 0;
    check_blas(
        cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                             &scheme, sizeof scheme, &written),
        "cublasLtMatmulAlgoConfigGetAttribute");
    return scheme == CUBLASLT_REDUCTION_SCHEME_INPLACE;
  }

  void choose_algorithm(Plan& plan, const Side& a, const Side& b, int alignment) {
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
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           std::uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t(a.alignment));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, std::uint32_t(b.alignment));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, std::uint32_t(alignment));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, std::uint32_t(alignment));
    constexpr int kWanted = 8;
    cublasLtMatmulHeuristicResult_t found[kWanted];
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_, plan.operation, plan.a, plan.b, plan.c, plan.c,
                                       preference, kWanted, found, &count);
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; ++i) {
      if (found[i].state != CUBLAS_STATUS_SUCCESS || adds_in_place(found[i].algo)) continue;
      plan.algorithm = found[i].algo;
      return;
    }
    throw DeviceError(
        fmt::format("cuBLASLt has no algorithm for a product of [{} x {}] and [{} x {}] in {}",
                    a.rows, a.cols, b.rows, b.cols, name_of(stream_.precision)));
  }

  void do_multiply_transposed(DenseOperand x, DenseOperand w, MatrixView<float> z,
                              Existing existing) override {
    if (z.empty()) return;
    product(side_of(w, true, second_), side_of(x, false, first_), 1.0f,
            existing == Existing::add ? 1.0f : 0.0f, z);
  }

  void do_affine(DenseOperand x, DenseOperand w, VectorView<const float> bias,
                 MatrixView<float> z) override {
    if (z.empty()) return;
    if (x.cols() > 0 && alignment_of(bias.data, 4) == 16) {
      product(side_of(w, true, second_), side_of(x, false, first_), 1.0f, 0.0f, z, bias.data);
      return;
    }
    pointwise_->set_rows(bias, z);
    do_multiply_transposed(x, w, z, Existing::add);
  }

  void do_multiply(DenseOperand delta, DenseOperand w, MatrixView<float> dx) override {
    if (dx.empty()) return;
    Side a = side_of(w, false, second_);
    Side b = side_of(delta, false, first_);
    // Zeros instead of an edge that would be a product of its own.
    const Index depth = round_up(w.rows(), 16 / element_bytes());
    if (rounds() && w.rows() > 0 && w.rows() + std::min(w.zero_rows, delta.zero_cols) >= depth)
      a.cols = b.rows = depth;
    product(a, b, 1.0f, 0.0f, dx);
  }

  void do_gradient(DenseOperand delta, DenseOperand x, float scale, MatrixView<float> g,
                   Existing existing) override {
    if (g.empty()) return;
    const float keep = existing == Existing::add ? 1.0f : 0.0f;
    if (delta.turned.data != nullptr || pays_to_turn(delta.rows(), g))
      product(turned_side(x, true, second_turned_), turned_side(delta, false, first_turned_), scale,
              keep, g);
    else
      product(side_of(x, false, second_), side_of(delta, true, first_), scale, keep, g);
  }

  // In tf32 tensor cores read operands along k alone: where they lie across, products are half as
  // fast.
  bool pays_to_turn(Index depth, MatrixView<float> g) const {
    constexpr double kLeast = 500.0;  // multiplications for each element that is turned
    return stream_.precision == Precision::tf32 && depth >= 256 &&
           double(g.rows) * double(g.cols) >= kLeast * double(g.rows + g.cols);
  }

  // An operand turned over. Rows have zeros behind them up to whole runs of 16 bytes.
  Side turned_side(const DenseOperand& operand, bool transposed, Scratch<float>& scratch) {
    MatrixView<const float> m = operand.turned;
    if (m.data == nullptr) {
      const Index depth = round_up(operand.rows(), 4);
      const MatrixView<float> copy{scratch.reserve(operand.cols() * depth), operand.cols(), depth,
                                   depth};
      cuda::turn(stream_, operand.values, copy);
      m = copy;
    }
    return {m.data,   round_up(operand.rows(), 4),    m.rows,
            m.stride, alignment_of(m.data, m.stride), transposed};
  }

  void do_turn(MatrixView<const float> x, MatrixView<float> turned) override {
    cuda::turn(stream_, x, turned);
  }

  Stream stream_;
  std::unique_ptr<PointwiseKernels> pointwise_;
  Scratch<Bfloat16> first_;
  Scratch<Bfloat16> second_;
  Scratch<float> first_turned_;
  Scratch<float> second_turned_;
  Buffer<std::byte> workspace_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace

std::unique_ptr<DenseKernels> make_dense(const Stream& stream) {
  return std::make_unique<CudaDense>(stream);
}

}  // namespace norn::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"
#include "norn/tensor/views.h"
#include "src/base/bfloat16.h"

#include <array>
#include <map>
#include <memory>

#include <cublasLt.h>

/// Products by cuBLASLt as they are handed to it, one algorithm a shape.
namespace norn::cuda {

/// Throws DeviceError unless the call went well.
void check_blas(cublasStatus_t status, const char* call);
/// Whether parts of a sum are added to the result in the order in which thread blocks end. Parts
/// that go through the workspace are added in their own order.
bool adds_in_place(const cublasLtMatmulAlgo_t& algorithm);

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
  Index step = 0;  ///< elements from one block's operand to the next one's, of Along::depth

  /// Elements [first, first + count) along k of the product, or across it. The first is a multiple
  /// of 16 bytes: the alignment stays.
  Side part(bool along_rows, Index first, Index count, Index element_bytes) const;
  /// The same wherever it begins, of blocks that begin at multiples of `block` elements.
  Side units(bool along_rows, Index first, Index count, Index block, Index element_bytes) const;
};

/// How the products of several blocks of units are one.
enum class Along {
  nothing,  ///< it is no block's
  columns,  ///< of the result in the library's view: they lie side by side
  rows,     ///< of the result
  depth     ///< each block has a result of its own
};

/// Algorithms for blocks are chosen for so many: as many as the device wants.
inline constexpr Index kMostBlocks = 4;

/// Products whose rows stand alone get the algorithm for so many of them, and those of windows.
inline constexpr Index kPlannedRows = 256;
inline constexpr Index kPlannedWindows = Index(1) << 14;

/// Every shape gets one algorithm, chosen by the library's own rules: where it splits a sum among
/// thread blocks, the parts are added in a fixed order, so a product has the same bits in every
/// run. The choice looks at shapes and alignments alone, and for blocks at kMostBlocks of them: not
/// at strides nor at how many there are, which differ from rank to rank. With one algorithm an
/// element's sum runs in the same order however many others there are (dense_precision_test.cu).
class DensePlans {
 public:
  explicit DensePlans(const Stream& stream);
  ~DensePlans();
  DensePlans(const DensePlans&) = delete;
  DensePlans& operator=(const DensePlans&) = delete;

  /// result = scale * a * b + keep * result, in the library's view [result.cols x result.rows]; and
  /// plus bias [result.cols] if there is one.
  struct Task {
    Side a;
    Side b;
    MatrixView<float> result;
    float scale = 1.0f;
    float keep = 0.0f;
    const float* bias = nullptr;
    Along along = Along::nothing;
    Index block = 0;   ///< units of a block
    Index blocks = 1;  ///< of Along::depth, up to kMostBlocks: a, b and result are the first one's
    Index step = 0;    ///< of Along::depth: elements from one block's result to the next one's
    /// Rows of the result stand alone: what is chosen is for so many of them, and must not follow
    /// from how many there are. b is not transposed then. 0: they do not.
    Index planned_rows = 0;

    int alignment() const;  ///< of the result
    Task of_blocks(Index count) const;
    Task of_rows(Index count) const;
    /// As the choice of an algorithm sees it.
    Task planned() const;
    /// With strides as if the matrices lay alone, of the same alignments.
    Task alone(Index element_bytes) const;
  };
  void multiply(const Task& task);
  bool rounds() const { return stream_.precision == Precision::bf16; }
  Index element_bytes() const { return rounds() ? sizeof(Bfloat16) : sizeof(float); }

 private:
  struct Plan;
  using Key = std::array<Index, 23>;
  static constexpr Index kWorkspace = Index(64) << 20;
  static Key key_of(const Task& task);
  std::unique_ptr<Plan> make_plan(const Task& task);
  void choose_algorithm(Plan& plan, const Task& task);
  bool takes(const Plan& plan, const Task& task, const cublasLtMatmulAlgo_t& algorithm) const;
  bool takes_others(const Plan& plan, const Task& task,
                    const cublasLtMatmulAlgo_t& algorithm) const;

  Stream stream_;
  Buffer<std::byte> workspace_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
  std::map<Key, cublasLtMatmulAlgo_t> of_rows_;  // of rows alone, by what they are planned for
};

}  // namespace norn::cuda

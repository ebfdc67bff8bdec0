// SPDX-License-Identifier: Apache-2.0
// Tensor maps come from the driver.
#include "kernels/cuda/device/driver_entry.h"
#include "kernels/cuda/hopper/tensor_map.h"

namespace norn::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

Encode encoder() {
  static const Encode function = driver_entry<Encode>("cuTensorMapEncodeTiled", 12000);
  return function;
}

struct Boxes {
  CUtensorMapDataType type;
  cuuint32_t cols;
  cuuint32_t rows;
  CUtensorMapSwizzle swizzle;
};

template <typename T>
CUtensorMap encode(MatrixView<const T> matrix, const Boxes& boxes) {
  CUtensorMap map;
  const cuuint64_t sizes[2] = {cuuint64_t(matrix.cols), cuuint64_t(matrix.rows)};
  const cuuint64_t strides[1] = {cuuint64_t(matrix.stride) * sizeof(T)};
  const cuuint32_t box[2] = {boxes.cols, boxes.rows};
  const cuuint32_t steps[2] = {1, 1};
  const CUresult status =
      encoder()(&map, boxes.type, 2, const_cast<T*>(matrix.data), sizes, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, boxes.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check_driver(status, "cuTensorMapEncodeTiled");
  return map;
}

/// Of matrices of so many rows each.
template <typename T>
CUtensorMap encode_each(MatrixView<const T> matrices, Index rows, const Boxes& boxes) {
  CUtensorMap map;
  const cuuint64_t sizes[3] = {cuuint64_t(matrices.cols), cuuint64_t(rows),
                               cuuint64_t(matrices.rows / rows)};
  const cuuint64_t bytes = cuuint64_t(matrices.stride) * sizeof(T);
  const cuuint64_t strides[2] = {bytes, bytes * cuuint64_t(rows)};
  const cuuint32_t box[3] = {boxes.cols, boxes.rows, 1}, steps[3] = {1, 1, 1};
  const CUresult status =
      encoder()(&map, boxes.type, 3, const_cast<T*>(matrices.data), sizes, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, boxes.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check_driver(status, "cuTensorMapEncodeTiled");
  return map;
}

template <typename T>
bool fits(MatrixView<const T> matrix) {
  constexpr Index kLimit = Index(1) << 31;
  return matrix.data != nullptr && reinterpret_cast<std::uintptr_t>(matrix.data) % 16 == 0 &&
         matrix.stride * Index(sizeof(T)) % 16 == 0 && matrix.rows > 0 && matrix.cols > 0 &&
         matrix.rows < kLimit && matrix.cols < kLimit && matrix.stride < kLimit;
}

}  // namespace

bool can_map(MatrixView<const Bfloat16> matrix) {
  return fits(matrix);
}
bool can_map(MatrixView<const float> matrix) {
  return fits(matrix);
}
bool can_map(MatrixView<const std::int16_t> matrix) {
  return fits(matrix);
}

CUtensorMap map_boxes(MatrixView<const Bfloat16> matrix) {
  return map_boxes(matrix, 64, 64);
}
CUtensorMap map_boxes(MatrixView<const Bfloat16> matrix, int rows, int cols) {
  return encode(matrix, {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, cuuint32_t(cols), cuuint32_t(rows),
                         cols == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B});
}
CUtensorMap map_half_boxes(MatrixView<const Bfloat16> matrix, int rows) {
  return map_boxes(matrix, rows, 32);
}
CUtensorMap map_half_boxes(MatrixView<const float> matrix, int rows) {
  return encode(
      matrix, {CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, 16, cuuint32_t(rows), CU_TENSOR_MAP_SWIZZLE_64B});
}
CUtensorMap map_boxes_of_each(MatrixView<const Bfloat16> matrices, Index rows) {
  return encode_each(matrices, rows,
                     {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 64, 64, CU_TENSOR_MAP_SWIZZLE_128B});
}
CUtensorMap map_boxes_of_each(MatrixView<const float> matrices, Index rows, int box_rows) {
  return encode_each(
      matrices, rows,
      {CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, 32, cuuint32_t(box_rows), CU_TENSOR_MAP_SWIZZLE_128B});
}
CUtensorMap map_rows(MatrixView<const float> matrix, int rows, int cols) {
  return encode(matrix, {CU_TENSOR_MAP_DATA_TYPE_FLOAT32, cuuint32_t(cols), cuuint32_t(rows),
                         CU_TENSOR_MAP_SWIZZLE_NONE});
}
// Halves of weights are moved as they are, whatever they stand for.
CUtensorMap map_rows(MatrixView<const Bfloat16> matrix, int rows, int cols) {
  return encode(matrix, {CU_TENSOR_MAP_DATA_TYPE_UINT16, cuuint32_t(cols), cuuint32_t(rows),
                         CU_TENSOR_MAP_SWIZZLE_NONE});
}
CUtensorMap map_rows(MatrixView<const std::int16_t> matrix, int rows, int cols) {
  return encode(matrix, {CU_TENSOR_MAP_DATA_TYPE_UINT16, cuuint32_t(cols), cuuint32_t(rows),
                         CU_TENSOR_MAP_SWIZZLE_NONE});
}
CUtensorMap map_operand_boxes(MatrixView<const float> matrix, int rows) {
  return encode(
      matrix, {CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, 32, cuuint32_t(rows), CU_TENSOR_MAP_SWIZZLE_128B});
}
CUtensorMap map_result_boxes(MatrixView<const float> matrix) {
  return encode(matrix, {CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 32, 64, CU_TENSOR_MAP_SWIZZLE_128B});
}

}  // namespace norn::cuda

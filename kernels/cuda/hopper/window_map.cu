// SPDX-License-Identifier: Apache-2.0
// Maps of windows come from the driver, too.
#include "kernels/cuda/device/driver_entry.h"
#include "kernels/cuda/hopper/window_map.h"
#include "kernels/window_pieces.h"

namespace norn::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeIm2col);

constexpr std::size_t kAxes = 2;  // x, y

Encode encoder() {
  static const Encode function = driver_entry<Encode>("cuTensorMapEncodeIm2col", 12000);
  return function;
}

template <typename T>
CUtensorMap map(const Window& window, CUtensorMapDataType type, const T* x, Index examples,
                int rows, Index box = window_pieces::kBox<T>) {
  CUtensorMap map;
  const auto channels = cuuint64_t(window.channels);
  const auto width = cuuint64_t(window.in[0]), height = cuuint64_t(window.in[1]);
  const cuuint64_t sizes[4] = {channels, width, height, cuuint64_t(examples)};
  const cuuint64_t place = channels * sizeof(T);
  const cuuint64_t strides[3] = {place, width * place, height * width * place};
  const int lower[kAxes] = {-int(window.padding[0]), -int(window.padding[1])};
  const int upper[kAxes] = {int(window_pieces::upper_corner(window, 0)),
                            int(window_pieces::upper_corner(window, 1))};
  const cuuint32_t steps[4] = {1, cuuint32_t(window.stride[0]), cuuint32_t(window.stride[1]), 1};
  const CUresult status = encoder()(
      &map, type, 4, const_cast<T*>(x), sizes, strides, lower, upper, cuuint32_t(box),
      cuuint32_t(rows), steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      box == window_pieces::kBox<T> ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check_driver(status, "cuTensorMapEncodeIm2col");
  return map;
}

template <typename T>
CUtensorMap blocks(const Window& window, CUtensorMapDataType type, const T* x, Index examples,
                   int rows, Index channels) {
  using EncodeTiled = decltype(&cuTensorMapEncodeTiled);
  static const auto encode = driver_entry<EncodeTiled>("cuTensorMapEncodeTiled", 12000);
  CUtensorMap map;
  const cuuint64_t sizes[4] = {cuuint64_t(window.channels), cuuint64_t(window.in[0]),
                               cuuint64_t(window.in[1]), cuuint64_t(examples)};
  const cuuint64_t place = sizes[0] * sizeof(T);
  const cuuint64_t strides[3] = {place, sizes[1] * place, sizes[2] * sizes[1] * place};
  const auto width = cuuint32_t(window_pieces::block_width(window, rows, examples));
  const cuuint32_t box[4] = {cuuint32_t(channels), width, cuuint32_t(rows) / width, 1};
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  const CUresult status = encode(
      &map, type, 4, const_cast<T*>(x), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      channels == window_pieces::kBox<T> ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check_driver(status, "cuTensorMapEncodeTiled");
  return map;
}

}  // namespace

CUtensorMap map_places(const Bfloat16* first, const MappedPlaces& places, int cols) {
  CUtensorMap map;
  constexpr cuuint32_t kRows = 64;
  constexpr cuuint64_t kBytes = sizeof(Bfloat16);
  const cuuint64_t sizes[4] = {cuuint64_t(places.channels), cuuint64_t(places.width),
                               cuuint64_t(places.height), cuuint64_t(places.examples)};
  const cuuint64_t strides[3] = {cuuint64_t(places.x) * kBytes, cuuint64_t(places.y) * kBytes,
                                 cuuint64_t(places.example) * kBytes};
  const int corner[kAxes] = {0, 0};
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  const CUresult status = encoder()(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, const_cast<Bfloat16*>(first), sizes, strides,
      corner, corner, cuuint32_t(cols), kRows, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      cols == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check_driver(status, "cuTensorMapEncodeIm2col");
  return map;
}

CUtensorMap map_blocks(const Window& window, const Bfloat16* x, Index examples, int rows,
                       Index channels) {
  return blocks(window, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, x, examples, rows, channels);
}
CUtensorMap map_blocks(const Window& window, const float* x, Index examples, int rows,
                       Index channels) {
  return blocks(window, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, x, examples, rows, channels);
}
CUtensorMap map_half_windows(const Window& window, const Bfloat16* x, Index examples, int rows) {
  return map(window, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, x, examples, rows,
             window_pieces::kBox<Bfloat16> / 2);
}
CUtensorMap map_half_windows(const Window& window, const float* x, Index examples, int rows) {
  return map(window, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, x, examples, rows,
             window_pieces::kBox<float> / 2);
}
CUtensorMap map_windows(const Window& window, const Bfloat16* x, Index examples, int rows) {
  return map(window, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, x, examples, rows);
}
CUtensorMap map_windows(const Window& window, const float* x, Index examples, int rows) {
  return map(window, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, x, examples, rows);
}

}  // namespace norn::cuda

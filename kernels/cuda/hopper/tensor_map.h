// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/tensor/views.h"
#include "src/base/bfloat16.h"

#include <cstdint>

#include <cuda.h>

/// Descriptions of matrices for the bulk tensor copy engine.
namespace norn::cuda {

/// Whether the copy engine can read and write the matrix: its rows begin at multiples of 16 bytes,
/// its sizes fit.
bool can_map(MatrixView<const Bfloat16> matrix);
bool can_map(MatrixView<const float> matrix);
bool can_map(MatrixView<const std::int16_t> matrix);

/// A matrix that is copied in boxes of 64 columns x 64 rows with the 128-byte swizzle. What lies
/// outside the matrix is read as zero and not written.
CUtensorMap map_boxes(MatrixView<const Bfloat16> matrix);
/// The same with other rows of a box, and columns: 64, or 32 with the 64-byte swizzle.
CUtensorMap map_boxes(MatrixView<const Bfloat16> matrix, int rows, int cols);

/// Operands in boxes of 64 bytes x `rows` rows, with the 64-byte swizzle. Floats are rounded to
/// tf32 on the way.
CUtensorMap map_half_boxes(MatrixView<const Bfloat16> matrix, int rows);
CUtensorMap map_half_boxes(MatrixView<const float> matrix, int rows);

/// Matrices of so many rows each, one below the other, which boxes do not leave. Floats are rounded
/// to tf32 on the way, and their boxes have 32 columns x `box_rows` rows.
CUtensorMap map_boxes_of_each(MatrixView<const Bfloat16> matrices, Index rows);
CUtensorMap map_boxes_of_each(MatrixView<const float> matrices, Index rows, int box_rows);

/// The same in boxes of whole rows of a tile: `cols` (at most 256) columns x `rows` rows, not
/// swizzled.
CUtensorMap map_rows(MatrixView<const float> matrix, int rows, int cols);
CUtensorMap map_rows(MatrixView<const Bfloat16> matrix, int rows, int cols);
CUtensorMap map_rows(MatrixView<const std::int16_t> matrix, int rows, int cols);

/// The same in boxes of 32 columns x 64 rows, swizzled: operands, which are rounded to tf32 on the
/// way, and results. Operands also in boxes of other rows.
CUtensorMap map_operand_boxes(MatrixView<const float> matrix, int rows = 64);
CUtensorMap map_result_boxes(MatrixView<const float> matrix);

}  // namespace norn::cuda

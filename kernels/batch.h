// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/column_runs.h"
#include "kernels/dropout_mask.h"
#include "src/tensor/buffer.h"

/// What happens to a batch between the data set and the first layer, and the masks of dropout.
namespace norn {

/// How a sparse input is prepared. All parts are optional.
struct InputPreparation {
  bool normalise_l2 = false;  ///< every row divided by its L2 norm (rows of norm 0 stay)
  float denoising =
      0.0f;  ///< probability that an entry is left out; the others are multiplied by 1 / (1 - p)
  Philox random;  ///< stream for denoising
  std::int64_t epoch = 0;
  VectorView<const float> feature_weight = {};  ///< [N] or empty: factors of values, by column
};

class BatchKernels {
 public:
  virtual ~BatchKernels() = default;

  /// Rows of a data set that stands in this memory, in the order asked for, as a batch.
  ///   stored [R x N],  row [B] numbers below R,  gathered [B x N], its entry_limit being `entries`
  /// `entries`: at least those of the chosen rows together.
  void gather(CsrView stored, VectorView<const Index> row, Index entries, CsrBuffer& gathered);
  ///   stored [R x N],  row [B],  x [B x N]
  void gather(MatrixView<const float> stored, VectorView<const Index> row, MatrixView<float> x);

  /// Indexes these columns of x, whose columns ascend within a row.   workspace [ColumnRuns::size]
  ColumnRuns find_runs(CsrView x, Range columns, VectorView<int> workspace);

  /// Copies a sparse batch and prepares it: multiply by the weights of features, normalise,
  /// multiply by the weight of the example, then leave entries out. A left-out entry is not stored.
  ///   x [B x N],  weight [B] factors of the values, or empty,  example [B] numbers of the examples
  ///   in their data set (may be empty without denoising)
  /// prepared.has_values is false when every value would be 1: x without values, and nothing to do.
  /// Which entries are left out depends on (random, epoch, example number, position of the entry in
  /// its row) only: entry i of example e is left out when random.uniform(e ^ (epoch << 40), i) <
  /// denoising.
  void prepare(CsrView x, VectorView<const float> weight, VectorView<const Index> example,
               const InputPreparation& preparation, CsrBuffer& prepared);

  /// x = data, every row divided by its L2 norm when `normalise_l2` (rows of norm 0 stay) and
  /// multiplied by its weight; columns beyond the data's become 0.
  ///   data [B x D],  weight [B] or empty,  x [B x N], N >= D
  void prepare_dense(MatrixView<const float> data, VectorView<const float> weight,
                     bool normalise_l2, MatrixView<float> x);
  /// out = the mask of y, in place or not.
  void mask(const DropoutMask& mask, MatrixView<const float> y, MatrixView<float> out);

 private:
  virtual void do_gather(CsrView stored, VectorView<const Index> row, Index entries,
                         CsrBuffer& gathered) = 0;
  virtual void do_gather(MatrixView<const float> stored, VectorView<const Index> row,
                         MatrixView<float> x) = 0;
  virtual void do_find_runs(CsrView x, const ColumnRuns& runs, int* begin) = 0;
  virtual void do_prepare(CsrView x, VectorView<const float> weight,
                          VectorView<const Index> example, const InputPreparation& preparation,
                          CsrBuffer& prepared) = 0;
  virtual void do_prepare_dense(MatrixView<const float> data, VectorView<const float> weight,
                                bool normalise_l2, MatrixView<float> x) = 0;
  virtual void do_mask(const DropoutMask& mask, MatrixView<const float> y,
                       MatrixView<float> out) = 0;
};

}  // namespace norn

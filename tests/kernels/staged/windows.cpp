// SPDX-License-Identifier: Apache-2.0
// The GPU's convolutions and poolings, to be tested with the CPU's test text.
#include "kernels/convolution.h"
#include "kernels/pooling.h"
#include "tests/kernels/device.h"
#include "tests/kernels/staged/staged.h"

#include <deque>

namespace norn {
namespace {

using staged::StagedMatrix;
using staged::StagedOperand;
using staged::StagedResult;
using staged::StagedVector;
using staged::TestDevice;

class StagedConvolution final : public ConvolutionKernels {
 private:
  void do_forward(const Window& window, const DenseOperand& x, MatrixView<const float> filters,
                  VectorView<const float> bias, MatrixView<float> z, Existing existing) override {
    StagedMatrix staged_x(x.values), staged_filters(filters);
    StagedMatrix staged_z(z);
    if (bias.empty())
      kernels_->forward(window, staged_x.view(), staged_filters.view(), staged_z.view(), existing);
    else
      kernels_->forward_from_bias(window, staged_x.view(), staged_filters.view(),
                                  StagedVector(bias).view(), staged_z.view());
    TestDevice::get().finish();
    staged_z.back();
  }
  void do_input_delta(const Window& window, const DenseOperand& delta,
                      MatrixView<const float> filters, MatrixView<float> dx,
                      Existing existing) override {
    StagedMatrix staged_delta(delta.values), staged_filters(filters);
    StagedMatrix staged_dx(dx);
    kernels_->input_delta(window, staged_delta.view(), staged_filters.view(), staged_dx.view(),
                          existing);
    TestDevice::get().finish();
    staged_dx.back();
  }
  void do_gradient(const Window& window, const DenseOperand& delta, const DenseOperand& x,
                   float scale, MatrixView<float> term) override {
    StagedMatrix staged_delta(delta.values), staged_x(x.values);
    StagedMatrix staged_term(term);
    kernels_->gradient(window, staged_delta.view(), staged_x.view(), scale, staged_term.view());
    TestDevice::get().finish();
    staged_term.back();
  }
  void do_to_file_order(Index channels, const DenseOperand& from, MatrixView<float> to) override {
    StagedMatrix staged_from(from.values);
    StagedMatrix staged_to(to);
    kernels_->to_file_order(channels, staged_from.view(), staged_to.view());
    TestDevice::get().finish();
    staged_to.back();
  }
  void do_to_channels_last(Index channels, MatrixView<const float> from, MatrixView<float> to,
                           Existing existing) override {
    StagedMatrix staged_from(from);
    StagedMatrix staged_to(to);
    kernels_->to_channels_last(channels, staged_from.view(), staged_to.view(), existing);
    TestDevice::get().finish();
    staged_to.back();
  }

  std::unique_ptr<DenseKernels> dense_ = cuda::make_dense(*TestDevice::get().stream);
  std::unique_ptr<ConvolutionKernels> kernels_ =
      cuda::make_convolution(*TestDevice::get().stream, *dense_);
};

class StagedSources {
 public:
  explicit StagedSources(std::span<const PoolingSource> sources) {
    for (const PoolingSource& source : sources) {
      x_.emplace_back(source.x);
      views_.push_back({source.window, x_.back().view()});
    }
  }
  std::span<const PoolingSource> views() const { return views_; }

 private:
  std::deque<StagedOperand> x_;
  std::vector<PoolingSource> views_;
};

template <typename Sum>
class StagedSums {
 public:
  explicit StagedSums(const PairSums<Sum>& sums)
      : products_(sums.products), first_(sums.first_squares), second_(sums.second_squares) {}
  PairSums<FixedSum> view() { return {products_.view(), first_.view(), second_.view()}; }
  void back() const {
    products_.back();
    first_.back();
    second_.back();
  }

 private:
  StagedVector<Sum> products_, first_, second_;
};

class StagedPooling final : public PoolingKernels {
 private:
  void do_forward(const Pooling& pooling, std::span<const PoolingSource> sources,
                  const DenseResult& y) override {
    const StagedSources staged_sources(sources);
    StagedResult staged_y(y);
    kernels_->forward(pooling, staged_sources.views(), staged_y.view());
    TestDevice::get().finish();
    staged_y.back();
  }
  void do_backward(const Pooling& pooling, std::span<const PoolingSource> sources,
                   std::size_t source, const DenseOperand& delta, const DenseResult& dx,
                   Existing existing) override {
    const StagedSources staged_sources(sources);
    StagedOperand staged_delta(delta);
    StagedResult staged_dx(dx);
    kernels_->backward(pooling, staged_sources.views(), source, staged_delta.view(),
                       staged_dx.view(), existing);
    TestDevice::get().finish();
    staged_dx.back();
  }
  bool do_backward_through(const Pooling& pooling, std::span<const PoolingSource> sources,
                           std::size_t source, const DenseOperand& delta, const Activation& f,
                           const DenseResult& dx) override {
    const StagedSources staged_sources(sources);
    StagedOperand staged_delta(delta);
    StagedResult staged_dx(dx);
    const bool done = kernels_->backward_through(pooling, staged_sources.views(), source,
                                                 staged_delta.view(), f, staged_dx.view());
    TestDevice::get().finish();
    staged_dx.back();
    return done;
  }
  void do_add_pair_sums(const PoolingSource& first, const PoolingSource& second,
                        const PairSums<FixedSum>& sums) override {
    const PoolingSource both[] = {first, second};
    const StagedSources staged_sources(both);
    StagedSums staged_sums(sums);
    kernels_->add_pair_sums(staged_sources.views()[0], staged_sources.views()[1],
                            staged_sums.view());
    TestDevice::get().finish();
    staged_sums.back();
  }
  void do_compare(Similarity similarity, const PairSums<const FixedSum>& sums,
                  MatrixView<float> y) override {
    StagedSums staged_sums(sums);
    StagedMatrix staged_y(y);
    kernels_->compare(similarity, staged_sums.view(), staged_y.view());
    TestDevice::get().finish();
    staged_y.back();
  }
  void do_compare_backward(Similarity similarity, const PairSums<const FixedSum>& sums,
                           MatrixView<const float> delta, const PoolingSource& first,
                           const PoolingSource& second, MatrixView<float> dx,
                           Existing existing) override {
    const PoolingSource both[] = {first, second};
    const StagedSources staged_sources(both);
    StagedSums staged_sums(sums);
    StagedMatrix staged_delta(delta);
    StagedMatrix staged_dx(dx);
    kernels_->compare_backward(similarity, staged_sums.view(), staged_delta.view(),
                               staged_sources.views()[0], staged_sources.views()[1],
                               staged_dx.view(), existing);
    TestDevice::get().finish();
    staged_dx.back();
  }

  std::unique_ptr<PoolingKernels> kernels_ = cuda::make_pooling(*TestDevice::get().stream);
};

}  // namespace

std::unique_ptr<ConvolutionKernels> samples::make_convolution(Executor&) {
  return std::make_unique<StagedConvolution>();
}
std::unique_ptr<PoolingKernels> samples::make_pooling(Executor&) {
  return std::make_unique<StagedPooling>();
}

}  // namespace norn

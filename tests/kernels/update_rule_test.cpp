// SPDX-License-Identifier: Apache-2.0
// Update rules against float64 implementations written from their papers, in DSSTNE's form: there
// the gradient is the negative mean and updates add.

#include "kernels/named_variant.h"
#include "tests/kernels/device.h"
#include "tests/kernels/executions.h"

#include <functional>
#include <map>

#include <fmt/format.h>

namespace norn {
namespace {

using samples::PaddedMatrix;

struct Settings {
  double rate, lambda, lambda1, decay;
};

/// A weight's life under one optimizer.
struct Reference {
  double w = 0.0, v = 0.0, vg = 0.0, most = 0.0;
};
/// One step t = 1, 2, ... with the negative gradient h, regularisation included, and rate alpha.
using ReferenceStep = std::function<void(Reference&, double h, double alpha, int t)>;
/// Rules that take lambda * w out of h again.
bool decouples_decay(const std::string& name) {
  return name == "AdamW";
}

const std::map<std::string, ReferenceStep>& references() {
  constexpr double mu = 0.9, beta1 = 0.9, beta2 = 0.999;
  const auto adam = [](Reference& r, double h, double alpha, int t) {
    r.v = beta1 * r.v + (1 - beta1) * h;
    r.vg = beta2 * r.vg + (1 - beta2) * h * h;
    const double m = r.v / (1 - std::pow(beta1, t)), v = r.vg / (1 - std::pow(beta2, t));
    r.w += alpha * m / (std::sqrt(v) + 1e-8);
  };
  static const std::map<std::string, ReferenceStep> steps{
      {"SGD", [](Reference& r, double h, double alpha, int) { r.w += alpha * h; }},
      {"Momentum",
       [](Reference& r, double h, double alpha, int) {
         r.v = mu * r.v + alpha * h;
         r.w += r.v;
       }},
      {"Nesterov",
       [](Reference& r, double h, double alpha, int) {
         const double old = r.v;
         r.v = mu * old + alpha * h;
         r.w += r.v + mu * (r.v - old);
       }},
      {"AdaGrad",
       [](Reference& r, double h, double alpha, int) {
         r.v += h * h;
         r.w += alpha * h / std::sqrt(std::max(1e-9, r.v));
       }},
      {"RMSProp",
       [](Reference& r, double h, double alpha, int) {
         r.v = mu * r.v + (1 - mu) * h * h;
         r.w += alpha * h / std::sqrt(std::max(1e-9, r.v));
       }},
      {"AdaDelta",
       [](Reference& r, double h, double, int) {
         r.vg = mu * r.vg + (1 - mu) * h * h;
         const double change = std::sqrt(std::max(1e-9, r.v) / std::max(1e-9, r.vg)) * h;
         r.v = mu * r.v + (1 - mu) * change * change;
         r.w += change;
       }},
      {"AMSGrad",
       [](Reference& r, double h, double alpha, int t) {
         r.v = beta1 * r.v + (1 - beta1) * h;
         r.vg = beta2 * r.vg + (1 - beta2) * h * h;
         r.most = std::max(r.most, r.vg);
         const double m = r.v / (1 - std::pow(beta1, t)), v = r.most / (1 - std::pow(beta2, t));
         r.w += alpha * m / (std::sqrt(v) + 1e-8);
       }},
      {"Adam", adam},
      {"AdamW", adam}};
  return steps;
}

SlotViews views_of(std::vector<PaddedMatrix<float>>& slot) {
  SlotViews views;
  for (std::size_t s = 0; s < views.size(); ++s) views[s] = slot[s].view();
  return views;
}

class UpdateRuleTest : public samples::RandomTest {};

/// Twenty steps of random gradients, by the kernel and by the reference.
void expect_agreement(const std::string& name, const Settings& settings, Index rows, Index cols,
                      std::mt19937_64& random) {
  const auto found = references().find(name);
  ASSERT_NE(found, references().end()) << "write down " << name << " from its paper here";
  const UpdateRule rule = *find_named<UpdateRule>(name);
  Executor executor(2);
  const auto kernels = samples::make_update(executor);
  UpdateSchedule schedule;
  schedule.rate = float(settings.rate);
  schedule.decay = float(settings.decay);
  schedule.l2 = float(settings.lambda);
  schedule.l1 = float(settings.lambda1);

  PaddedMatrix<float> w(rows, cols), g(rows, cols);
  std::vector<PaddedMatrix<float>> slot(std::size_t(kMostSlots), PaddedMatrix<float>(rows, cols));
  samples::fill_normal(w.view(), random);
  for (auto& s : slot)
    for (Index r = 0; r < rows; ++r) std::fill_n(s.view().row(r), cols, 0.0f);
  std::vector<Reference> reference(std::size_t(rows * cols));
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < cols; ++c) reference[std::size_t(r * cols + c)].w = double(w(r, c));

  for (int t = 1; t <= 20; ++t) {
    samples::fill_normal(g.view(), random);
    const double alpha = settings.rate / (1 + settings.decay * (t - 1));
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) {
        Reference& one = reference[std::size_t(r * cols + c)];
        const double sign = one.w > 0 ? 1 : (one.w < 0 ? -1 : 0);
        const double decay = settings.lambda * one.w;
        const double h = -double(g(r, c)) - settings.lambda1 * sign;
        if (decouples_decay(name)) {
          found->second(one, h, alpha, t);
          one.w -= alpha * decay;
        } else {
          found->second(one, h - decay, alpha, t);
        }
      }
    kernels->update(rule, schedule.at(rule, t - 1), w.view(), g.view(), views_of(slot));
  }
  // Float32 roundings of twenty steps; a weight whose gradients nearly cancel keeps fewer digits,
  // and RMSProp divides by the root of what is left.
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < cols; ++c)
      ASSERT_LE(samples::relative_error(w(r, c), reference[std::size_t(r * cols + c)].w, 0.1), 2e-3)
          << r << ", " << c;
  EXPECT_TRUE(w.padding_is_intact());
  for (const auto& s : slot) EXPECT_TRUE(s.padding_is_intact());
}

TEST_F(UpdateRuleTest, EveryRuleAgreesWithItsPaper) {
  for (const std::string& name : names_of<UpdateRule>())
    for (const Settings& settings : {Settings{0.05, 0, 0, 0}, Settings{0.05, 1e-2, 0, 0},
                                     Settings{0.05, 0, 1e-2, 0}, Settings{0.02, 1e-3, 1e-3, 0.1}}) {
      SCOPED_TRACE(fmt::format("{} rate {} l2 {} l1 {} decay {}", name, settings.rate,
                               settings.lambda, settings.lambda1, settings.decay));
      expect_agreement(name, settings, 3, 41, random_);
    }
}

TEST_F(UpdateRuleTest, EveryShapeIsUpdatedWhole) {
  for (const std::string& name : names_of<UpdateRule>())
    for (const auto& [rows, cols] :
         std::vector<std::pair<Index, Index>>{{1, 1}, {31, 33}, {129, 127}, {1, 20000}, {700, 1}}) {
      SCOPED_TRACE(fmt::format("{} [{} x {}]", name, rows, cols));
      expect_agreement(name, {0.05, 1e-2, 1e-3, 0.01}, rows, cols, random_);
    }
}

// Gradients of several sizes on both sides of the limit; what is not a number must not pass for
// one.
TEST_F(UpdateRuleTest, ClippedStepsAreThoseOfClippedGradients) {
  Executor executor(2);
  const auto kernels = samples::make_update(executor);
  constexpr float kLimit = 0.75f;
  for (const std::string& name : names_of<UpdateRule>()) {
    SCOPED_TRACE(name);
    const UpdateRule rule = *find_named<UpdateRule>(name);
    constexpr Index kRows = 3, kCols = 41;
    // The state, and last the weights.
    std::vector<PaddedMatrix<float>> clipped_at(std::size_t(kMostSlots) + 1,
                                                PaddedMatrix<float>(kRows, kCols));
    for (auto& m : clipped_at)
      for (Index r = 0; r < kRows; ++r)
        for (Index c = 0; c < kCols; ++c) m.view()(r, c) = uniform(0.1f, 1.0f);
    std::vector<PaddedMatrix<float>> beforehand = clipped_at;
    PaddedMatrix<float> g(kRows, kCols), limited(kRows, kCols);
    samples::fill_normal(g.view(), random_);
    int over = 0;
    for (Index r = 0; r < kRows; ++r)
      for (Index c = 0; c < kCols; ++c) {
        limited.view()(r, c) = std::max(-kLimit, std::min(kLimit, g(r, c)));
        over += limited(r, c) != g(r, c);
      }
    EXPECT_GT(over, 10);
    UpdateSchedule schedule;
    schedule.l2 = 0.01f;
    kernels->update(rule, schedule.at(rule, 2), beforehand.back().view(), limited.view(),
                    views_of(beforehand));
    schedule.clip = kLimit;
    kernels->update(rule, schedule.at(rule, 2), clipped_at.back().view(), g.view(),
                    views_of(clipped_at));
    for (std::size_t m = 0; m < clipped_at.size(); ++m)
      EXPECT_TRUE(clipped_at[m].same_bits(beforehand[m]));
  }
  EXPECT_TRUE(std::isnan(clipped(std::numeric_limits<float>::quiet_NaN(), 1.0f)));
  EXPECT_EQ(clipped(-std::numeric_limits<float>::infinity(), 2.0f), -2.0f);
}

TEST(UpdateScheduleTest, RisesInEqualPartsToTheRateWithDecay) {
  UpdateSchedule schedule;
  schedule.rate = 0.8f;
  schedule.decay = 0.5f;
  schedule.warm_up_in(4);
  for (int t = 0; t < 4; ++t)
    EXPECT_FLOAT_EQ(schedule.rate_at(t), 0.8f / (1.0f + 0.5f * float(t)) * float(t + 1) / 4.0f);
  UpdateSchedule without = schedule;
  without.warm_up_in(0);
  for (int t = 3; t < 9; ++t) EXPECT_EQ(schedule.rate_at(t), without.rate_at(t));
}

TEST(UpdateScheduleTest, FirstStepOfAdamIsFullyCorrected) {
  const UpdateStep first = UpdateSchedule{}.at(Adam{}, 0);
  EXPECT_FLOAT_EQ(first.times[0], 10.0f);
  EXPECT_NEAR(first.times[1], 1000.0f, 0.1f);
  EXPECT_EQ(first.rate, 0.025f);
}

}  // namespace
}  // namespace norn

// SPDX-License-Identifier: Apache-2.0
// Poolings whose operands and results stand in bfloat16: the bits that floats of the same values
// give, of shapes drawn at random.

#include "tests/kernels/device.h"
#include "tests/kernels/pooling_cases.h"
#include "tests/support/message_of.h"

#include <algorithm>
#include <bit>

namespace norn {
namespace {

using samples::Case;
using samples::PaddedMatrix;
using samples::Sums;

/// How a matrix stands: as floats, in bf16 or as both.
enum class Form { floats, bf16, both };

const char* text_of(Form form) {
  if (form == Form::both) return "both";
  return form == Form::bf16 ? "bf16" : "floats";
}

/// A matrix in each form. Its values are numbers of bf16, but where both stand, those in bf16 are
/// poison: floats are read.
struct Formed {
  Form form;
  PaddedMatrix<float> floats;
  PaddedMatrix<Bfloat16> bf16;

  Formed(Form drawn, PaddedMatrix<float>& x, Index padding)
      : form(drawn), floats(x.rows(), x.cols(), padding), bf16(x.rows(), x.cols(), padding) {
    for (Index r = 0; r < x.rows(); ++r)
      for (Index c = 0; c < x.cols(); ++c) {
        floats(r, c) = x(r, c);
        if (form != Form::both) bf16(r, c) = Bfloat16::rounded(x(r, c));
      }
  }
  DenseResult view() {
    MatrixView<float> values = floats.view();
    if (form == Form::bf16) values.data = nullptr;
    return {values, form == Form::floats ? MatrixView<Bfloat16>{} : bf16.view()};
  }
};

void expect_same(PaddedMatrix<float>& expected, Formed& found, const char* what) {
  for (Index r = 0; r < expected.rows(); ++r)
    for (Index c = 0; c < expected.cols(); ++c) {
      const float value = expected(r, c);
      if (found.form != Form::bf16) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(found.floats(r, c)),
                  std::bit_cast<std::uint32_t>(value))
            << what << " " << r << ", " << c << ": " << found.floats(r, c) << ", " << value;
      }
      if (found.form != Form::floats) {
        ASSERT_EQ(found.bf16(r, c).bits, Bfloat16::rounded(value).bits)
            << what << " in bf16 " << r << ", " << c << ": " << found.bf16(r, c).value() << ", "
            << value;
      }
    }
  EXPECT_TRUE(found.floats.padding_is_intact() && found.bf16.padding_is_intact()) << what;
}

class Bf16PoolingTest : public samples::PoolingCases {
 protected:
  void SetUp() override {
    if (!samples::is_gpu()) GTEST_SKIP() << "the CPU computes in floats";
  }
  Form any_form() { return Form(below(3)); }
  /// Mostly of rows that a GPU reads in packs: all that a round draws or none.
  Index any_padding() { return has_packs_ ? 8 * below(3) : 1 + below(9); }

  void round_to_bf16(PaddedMatrix<float>& x) {
    for (Index r = 0; r < x.rows(); ++r)
      for (Index c = 0; c < x.cols(); ++c) x(r, c) = Bfloat16::rounded(x(r, c)).value();
  }
  /// Of rows that a GPU does not read in packs.
  PaddedMatrix<float> random_numbers(Index rows, Index cols, Index kind) {
    PaddedMatrix<float> x(rows, cols, 1 + cols % 2 + 2 * below(3));
    fill(x.view(), kind);
    round_to_bf16(x);
    return x;
  }
  Pooling any_pooling() {
    switch (below(5)) {
      case 0:
        return AveragePooling{};
      case 1:
        return Maxout{};
      case 2:
        return LocalResponseNormalization{uniform(0.5f, 3.0f), int(1 + below(11)),
                                          uniform(0.0f, 5.0f), uniform(0.1f, 1.5f)};
      default:
        return MaxPooling{};
    }
  }
  /// Sources of `pooling` whose floats stand in rows that are not read in packs.
  Case draw_for(const Pooling& pooling) {
    has_packs_ = below(4) != 0;
    Window window = draw_window();
    const bool slides = std::holds_alternative<MaxPooling>(pooling) ||
                        std::holds_alternative<AveragePooling>(pooling);
    if (!slides) window = without_windows(window);
    if (below(4) != 0) window.channels = 8 * (1 + below(window.places() > 100 ? 5 : 40));
    if (slides && below(12) == 0) {  // windows of more units than a byte counts
      for (std::size_t a = 0; a < 2; ++a) {
        window.kernel[a] = 17 + below(2);
        window.out[a] = 1 + below(2);
        window.in[a] = window.kernel[a] + window.out[a] - 1;
        window.stride[a] = 1;
        window.padding[a] = 0;
      }
      window.in[2] = window.out[2] = window.kernel[2] = window.stride[2] = 1;
      window.padding[2] = 0;
      window.channels = 8 * (1 + below(3));
    }
    if (below(12) == 0) {  // more channels than a block has threads for
      window = without_windows(Window{});
      window.channels = 8 * (250 + below(20));
    }
    Case drawn;
    drawn.examples = 2 + below(4);
    const Index sources = 1 + below(2), kind = below(4);
    for (Index s = 0; s < sources; ++s) {
      drawn.windows.push_back(window);
      drawn.windows.back().order = below(4) == 0 ? UnitOrder::file : UnitOrder::channels_last;
      drawn.x.push_back(random_numbers(drawn.examples, window.places() * window.channels, kind));
    }
    return drawn;
  }
  std::vector<Formed> forms_of(Case& drawn) {
    std::vector<Formed> forms;
    for (PaddedMatrix<float>& x : drawn.x) forms.emplace_back(any_form(), x, any_padding());
    return forms;
  }
  static std::vector<PoolingSource> sources_of(const Case& drawn, std::vector<Formed>& forms) {
    std::vector<PoolingSource> sources;
    for (std::size_t s = 0; s < forms.size(); ++s)
      sources.push_back({drawn.windows[s], forms[s].view()});
    return sources;
  }
  static std::string text_of_forms(const Pooling& pooling, Case& drawn,
                                   const std::vector<Formed>& forms) {
    const char* const names[] = {"max", "mean", "responses", "maxout"};
    std::string text = std::string(names[pooling.index()]) + ", " + samples::text_of(drawn);
    if (const auto* lrn = std::get_if<LocalResponseNormalization>(&pooling))
      text += fmt::format("; n {}", lrn->n);
    for (const Formed& form : forms) text += fmt::format("; x {}", text_of(form.form));
    return text;
  }
  bool has_packs_ = true;
};

TEST_F(Bf16PoolingTest, HasTheBitsOfFloats) {
  Executor executor(1);
  const auto kernels = samples::make_pooling(executor);
  for (int round = 0; round < 200; ++round) {
    const Pooling pooling = any_pooling();
    Case drawn = draw_for(pooling);
    std::vector<Formed> forms = forms_of(drawn);
    SCOPED_TRACE(text_of_forms(pooling, drawn, forms));
    const auto sources = sources_of(drawn, forms);

    PaddedMatrix<float> y = random_numbers(drawn.examples, drawn.results(), 0);
    Formed result(forms.size() == 1 ? any_form() : Form::both, y, any_padding());
    kernels->forward(pooling, drawn.sources(), y.view());
    kernels->forward(pooling, sources, result.view());
    ASSERT_NO_FATAL_FAILURE(expect_same(y, result, "forward"));

    PaddedMatrix<float> delta = random_numbers(drawn.examples, drawn.results(), 0);
    Formed given(any_form(), delta, any_padding());
    SCOPED_TRACE(fmt::format("delta {}", text_of(given.form)));
    for (std::size_t s = 0; s < forms.size(); ++s) {
      PaddedMatrix<float> dx = random_numbers(drawn.examples, drawn.x[s].cols(), 0);
      Formed to(any_form(), dx, any_padding());
      const Existing existing =
          to.form == Form::bf16 || below(2) == 0 ? Existing::overwrite : Existing::add;
      kernels->backward(pooling, drawn.sources(), s, delta.view(), dx.view(), existing);
      kernels->backward(pooling, sources, s, given.view(), to.view(), existing);
      ASSERT_NO_FATAL_FAILURE(expect_same(dx, to, "backward"));
    }
  }
}

TEST_F(Bf16PoolingTest, GoesThroughFunctionsAsFloatsDo) {
  Executor executor(1);
  const auto kernels = samples::make_pooling(executor);
  const std::vector<Activation> functions{Relu{}, LeakyRelu{0.3f}, Linear{}};
  for (int round = 0; round < 120; ++round) {
    const Pooling pooling = any_pooling();
    const Activation& f = functions[std::size_t(below(Index(functions.size())))];
    Case drawn = draw_for(pooling);
    std::vector<Formed> forms = forms_of(drawn);
    PaddedMatrix<float> delta = random_numbers(drawn.examples, drawn.results(), 0);
    Formed given(any_form(), delta, any_padding());
    PaddedMatrix<float> dx = random_numbers(drawn.examples, drawn.x[0].cols(), 0);
    Formed to(any_form(), dx, any_padding());
    SCOPED_TRACE(text_of_forms(pooling, drawn, forms) +
                 fmt::format("; delta {}; dx {}", text_of(given.form), text_of(to.form)));
    ASSERT_TRUE(kernels->backward_through(pooling, sources_of(drawn, forms), 0, given.view(), f,
                                          to.view()));
    kernels->backward(pooling, drawn.sources(), 0, delta.view(), dx.view(), Existing::overwrite);
    for (Index r = 0; r < dx.rows(); ++r)
      for (Index c = 0; c < dx.cols(); ++c)
        dx(r, c) *= std::visit([&](const auto& g) { return g.slope(drawn.x[0](r, c)); }, f);
    ASSERT_NO_FATAL_FAILURE(expect_same(dx, to, "backward_through"));
  }
}

TEST_F(Bf16PoolingTest, ComparesSourcesAsFloatsDo) {
  Executor executor(1);
  const auto kernels = samples::make_pooling(executor);
  for (int round = 0; round < 20; ++round) {
    Case drawn = draw_units(1 + below(300), 2, 1 + below(5));
    for (PaddedMatrix<float>& x : drawn.x) round_to_bf16(x);
    std::vector<Formed> forms = forms_of(drawn);
    SCOPED_TRACE(samples::text_of(drawn));
    const auto floats = drawn.sources(), sources = sources_of(drawn, forms);
    Sums expected(drawn.examples), found(drawn.examples);
    kernels->add_pair_sums(floats[0], floats[1], expected.view());
    kernels->add_pair_sums(sources[0], sources[1], found.view());
    ASSERT_TRUE(found == expected);
    PaddedMatrix<float> delta = random_numbers(drawn.examples, 1, 0);
    PaddedMatrix<float> dx = random_numbers(drawn.examples, drawn.x[0].cols(), 0);
    Formed to(Form::floats, dx, any_padding());
    kernels->compare_backward(Similarity::cosine, found.view(), delta.view(), floats[0], floats[1],
                              dx.view(), Existing::overwrite);
    kernels->compare_backward(Similarity::cosine, found.view(), delta.view(), sources[0],
                              sources[1], to.view().values, Existing::overwrite);
    ASSERT_NO_FATAL_FAILURE(expect_same(dx, to, "compare_backward"));
  }
}

class Bf16PoolingShapes : public samples::PoolingCases {};

TEST_F(Bf16PoolingShapes, AreRefusedWhereFloatsMustBeKept) {
  Executor executor(1);
  const auto kernels = samples::make_pooling(executor);
  Case drawn = draw(draw_window(), 2, 3);
  SCOPED_TRACE(samples::text_of(drawn));
  PaddedMatrix<float> y(3, drawn.results()), dx(3, drawn.x[0].cols());
  Formed to_y(Form::bf16, y, 0), to_dx(Form::bf16, dx, 0);
  EXPECT_EQ(
      message_of<ShapeError>([&] { kernels->forward(MaxPooling{}, drawn.sources(), to_y.view()); }),
      "pooling forward: results in bf16 alone are those of one source");
  EXPECT_THROW(
      kernels->backward(MaxPooling{}, drawn.sources(), 0, y.view(), to_dx.view(), Existing::add),
      ShapeError);
  PaddedMatrix<Bfloat16> narrow(3, y.cols() + 1);
  EXPECT_THROW(kernels->forward(MaxPooling{}, drawn.sources(), {y.view(), narrow.view()}),
               ShapeError);
  auto sources = drawn.sources();
  sources[1].x.bf16 = narrow.view().row_range(0, 2);
  EXPECT_THROW(kernels->forward(MaxPooling{}, sources, y.view()), ShapeError);
}

}  // namespace
}  // namespace norn

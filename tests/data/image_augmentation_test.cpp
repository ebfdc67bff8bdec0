// SPDX-License-Identifier: Apache-2.0
// Images that are moved and mirrored at random.
#include "src/data/image_augmentation.h"

#include "support.h"
#include "tests/support/reference_images.h"

#include <map>
#include <numeric>
#include <random>

namespace norn::test {
namespace {

ImageAugmentation augmentation_of(const ImageShape& shape, Philox random) {
  ImageAugmentation images;
  images.width = shape.extent[0];
  images.height = shape.axes > 1 ? shape.extent[1] : 1;
  images.planes = shape.units() / images.width / images.height;
  images.crop = {shape.crop, images.height > 1 ? shape.crop : 0};
  images.flip = shape.flip;
  images.border = shape.border;
  images.random = random;
  return images;
}

HostBatch batch_of(Index width, const std::vector<Index>& examples, std::mt19937_64& random) {
  HostBatch batch;
  batch.examples = Index(examples.size());
  batch.width = width;
  batch.is_sparse = false;
  batch.example = examples;
  batch.dense = Matrix<float>(batch.examples + 2, width);  // more rows than there are examples
  const MatrixView<float> x = batch.dense.view();
  for (Index i = 0; i < x.size(); ++i)
    x.data[i] = std::uniform_real_distribution<float>(-1, 1)(random);
  return batch;
}

TEST(ImageAugmentation, IsThatOfTheDocumentedDraws) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto upto = [&](Index most) { return Index(1 + random() % std::uint64_t(most)); };
  for (int i = 0; i < 60; ++i) {
    ImageShape shape{{upto(19), upto(12), upto(4)}, int(upto(2))};
    Index least = shape.extent[0];
    if (shape.axes > 1 && shape.extent[1] > 1) least = std::min(least, shape.extent[1]);
    shape.crop = Index(random() % std::uint64_t(least));
    shape.flip = random() % 2 == 0;
    shape.border = random() % 2 ? 0.0f : -0.5f;
    const Philox stream = Philox::stream(random(), RandomPurpose::augmentation, 3);
    ImageAugmentation images = augmentation_of(shape, stream);
    std::vector<Index> examples(std::size_t(upto(37)));
    for (Index& example : examples) example = Index(random() % 1000000007);
    for (const Index epoch : {Index(0), Index(1), upto(1000)}) {
      SCOPED_TRACE(testing::Message() << "case " << i << ", epoch " << epoch);
      HostBatch batch = batch_of(shape.units(), examples, random);
      const HostBatch before = batch_of(shape.units(), examples, random);
      std::copy_n(before.dense.view().data, before.dense.view().size(), batch.dense.view().data);
      images.apply(epoch, batch);
      for (std::size_t r = 0; r < examples.size(); ++r) {
        const std::vector<float> expected =
            augmented(shape, before.dense.view().row(Index(r)), stream, epoch, examples[r]);
        const float* const row = batch.dense.view().row(Index(r));
        ASSERT_EQ(std::vector<float>(row, row + batch.width), expected) << "example " << r;
      }
      const float* const rest = before.dense.view().row(batch.examples);
      EXPECT_TRUE(std::equal(rest, rest + 2 * batch.width, batch.dense.view().row(batch.examples)));
    }
  }
}

TEST(ImageAugmentation, VisitsEveryPlaceAboutEquallyOften) {
  ImageShape shape{{5, 3, 1}, 2, 2, true};
  const Philox stream = Philox::stream(7, RandomPurpose::augmentation);
  ImageAugmentation images = augmentation_of(shape, stream);
  std::map<std::vector<float>, int> seen;
  const int draws = 50 * 400;  // 5 x 5 offsets, mirrored or not
  for (Index epoch = 0; epoch < draws / 100; ++epoch) {
    std::vector<Index> examples(100);
    std::iota(examples.begin(), examples.end(), Index(0));
    std::mt19937_64 same(1);
    HostBatch batch = batch_of(15, examples, same);
    for (Index r = 0; r < 100; ++r)
      for (Index u = 0; u < 15; ++u) batch.dense.view().row(r)[u] = float(u + 1);
    images.apply(epoch, batch);
    for (Index r = 0; r < 100; ++r) {
      const float* const row = batch.dense.view().row(r);
      ++seen[std::vector<float>(row, row + 15)];
    }
  }
  ASSERT_EQ(seen.size(), 50u);
  double chi_square = 0;
  for (const auto& [image, count] : seen) chi_square += (count - 400.0) * (count - 400.0) / 400;
  EXPECT_LT(chi_square, 85.4);  // 49 degrees of freedom, one in a thousand
}

TEST(ImageAugmentation, RefusesBatchesThatAreNoImagesInMainMemory) {
  std::mt19937_64 random(1);
  ImageAugmentation images = augmentation_of({{3, 2, 1}}, Philox());
  HostBatch narrow = batch_of(5, {0}, random);
  EXPECT_THROW(images.apply(0, narrow), ShapeError);
  HostBatch elsewhere = batch_of(6, {0}, random);
  const StoredRows rows;
  elsewhere.stored = &rows;
  EXPECT_THROW(images.apply(0, elsewhere), ShapeError);
}

}  // namespace
}  // namespace norn::test

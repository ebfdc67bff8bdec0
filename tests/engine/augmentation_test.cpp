// SPDX-License-Identifier: Apache-2.0
// Training on images that are moved and mirrored: on those that the documents describe, with the
// same bits on any number of ranks, stopped and resumed anywhere.
#include "src/engine/train/trainer.h"
#include "tests/data/support.h"
#include "tests/support/recipes.h"
#include "tests/support/reference_images.h"
#include "tests/support/test_runtime.h"
#include "tests/support/thread_group.h"

#include <mutex>
#include <random>

namespace norn::test {
namespace {

struct Session {
  int ranks = 1;
  std::int64_t stop_after = -1;  ///< steps
  bool resume = false;
  bool moves_data = false;
};

class Augmented : public testing::Test {
 protected:
  // A network on images of one to three axes, with a convolution where it has channels, and a
  // second reader of the same images that leaves them as they are.
  void draw(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto upto = [&](Index most) { return Index(1 + random() % std::uint64_t(most)); };
    recipe_ = recipe_base("augmented", Adam{}, 0.003f);
    recipe_.data_seed = recipe_.network.training.seed = seed;
    recipe_.network.training.batch = upto(17);
    recipe_.network.training.epochs = 3;
    recipe_.examples = recipe_.network.training.batch + upto(23);
    recipe_.inputs = {.name = "dense", .sparse = false};
    LayerDescriptor image = input_layer("In", 1);
    image.dimensions = int(upto(3));
    for (int axis = 0; axis < image.dimensions; ++axis)
      image.extent[std::size_t(axis)] = axis < 2 ? upto(11) : upto(3);
    LayerDescriptor hidden = hidden_layer("First", 13, {"In"});
    shape_ = {{image.extent[0], image.extent[1], image.extent[2]}, std::min(2, image.dimensions)};
    if (image.dimensions > 1 && random() % 2) {
      hidden.type = LayerType::convolutional;
      hidden.kernel_dimensions = image.dimensions - 1;
      for (int axis = 0; axis < hidden.kernel_dimensions; ++axis)
        hidden.kernel[std::size_t(axis)] = 3;
      shape_.axes = std::min(2, hidden.kernel_dimensions);
    }
    Index least = image.extent[0];
    if (shape_.axes > 1 && image.extent[1] > 1) least = std::min(least, image.extent[1]);
    shape_.crop = image.augment.crop = Index(random() % std::uint64_t(least));
    shape_.flip = image.augment.flip = random() % 4 != 0;
    if (random() % 2) image.normalize = InputNormalization::l2;
    if (random() % 2) image.dropout = 0.3f;
    recipe_.network.layers = {image, hidden,
                              output_layer("Out", 31, {"First", "Plain"}, SoftMax{})};
    write_data(recipe_, folder_ / "data.nc");
    LayerDescriptor plain = image;
    plain.name = "Plain";
    plain.augment = {};
    recipe_.network.layers.insert(recipe_.network.layers.begin() + 1, plain);
  }

  DataBinding data() const {
    const DataSources sources{{folder_ / "data.nc"}, {folder_ / "data.nc"}};
    return {recipe_.network, sources, DataBinding::Layers::inputs_and_outputs};
  }
  std::unique_ptr<Network> network_on(const DataBinding& data, const Context& context) const {
    context.compute.kernels.block_rule = recipe_.blocks;
    return std::make_unique<Network>(make_graph(recipe_.network, data.shapes(), "test"),
                                     data.shapes(), context, recipe_.network.training.batch,
                                     Pass::training);
  }

  // Parameters after a run, or a part of it.
  std::vector<float> live(const Session& session) const {
    std::vector<float> result;
    std::mutex mutex;
    const auto body = [&](Communicator& communicator) {
      const std::unique_ptr<Runtime> runtime = make_test_runtime(1, session.stop_after > 0 ? 0 : 4);
      const Context context = runtime->context(communicator);
      DataBinding sets = data();
      const std::unique_ptr<Network> network = network_on(sets, context);
      const std::filesystem::path model = folder_ / "model.nc";
      TrainingState state;
      if (session.resume) {
        TensorFileReader file(find_checkpoint(model).value());
        const ModelInfo info = read_model_info(file);
        EXPECT_EQ(info.network.layers[0].augment, recipe_.network.layers[0].augment);
        load_weights(communicator.rank() == 0 ? &file : nullptr, info, *network);
        state = info.state;
      } else {
        network->initialise(recipe_.network.training.seed);
      }
      if (session.moves_data) sets.move_to(context.compute.memory, recipe_.network);
      std::atomic<bool> stop = false;
      TrainingObserver observer;
      observer.on_step = [&](const StepReport& report) {
        if (report.step == session.stop_after) stop = true;
      };
      train(*network, sets, {.model = model}, stop, observer, state);
      const std::vector<float> parameters = gather_state(*network);
      const std::lock_guard lock(mutex);
      if (communicator.rank() == 0) result = parameters;
    };
    if (session.ranks == 1)
      body(*make_single_process());
    else
      run_thread_group(session.ranks, body);
    return result;
  }

  // The same, step by step on images that were made by the formula.
  std::vector<float> expected() const {
    const std::unique_ptr<Runtime> runtime = make_test_runtime(1);
    const auto one = make_single_process();
    const Context context = runtime->context(*one);
    const DataBinding sets = data();
    const std::unique_ptr<Network> network = network_on(sets, context);
    const TrainingDescriptor& training = recipe_.network.training;
    network->initialise(training.seed);
    network->set_rate(training.rate, 0, 0);
    const BatchOrder order(recipe_.examples, training.batch, recipe_.network.shuffle,
                           training.seed);
    const Philox random = Philox::stream(training.seed, RandomPurpose::augmentation, 0);
    BatchLoader loader(sets.sources(), order, 0, 0, training.epochs);
    std::int64_t step = 0;
    while (const LoadedBatch* loaded = loader.next()) {
      BoundBatch bound = sets.bind(*loaded);
      const HostBatch& original = *bound.of_layer[0];
      HostBatch batch;
      batch.examples = original.examples;
      batch.width = original.width;
      batch.is_sparse = false;
      batch.example = original.example;
      batch.dense = Matrix<float>(batch.examples, batch.width);
      for (Index r = 0; r < batch.examples; ++r) {
        const std::vector<float> image = augmented(shape_, original.matrix().row(r), random,
                                                   loaded->epoch, original.example[std::size_t(r)]);
        std::copy(image.begin(), image.end(), batch.dense.view().row(r));
      }
      bound.of_layer[0] = &batch;
      network->train_step(bound, {step, loaded->epoch, training.seed});
      ++step;
    }
    network->catch_up(step);
    return gather_state(*network);
  }

  std::int64_t steps() const {
    const Index batch = recipe_.network.training.batch;
    return recipe_.network.training.epochs * ((recipe_.examples + batch - 1) / batch);
  }

  const std::uint64_t seed_ = std::random_device{}();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
  const TempDir folder_;
  Recipe recipe_;
  ImageShape shape_;
};

TEST_F(Augmented, TrainsOnTheImagesOfTheFormula) {
  for (std::uint64_t i = 0; i < 10; ++i) {
    draw(seed_ + i);
    SCOPED_TRACE(testing::Message() << "case " << i);
    EXPECT_EQ(live({}), expected());
  }
}

TEST_F(Augmented, HasTheSameBitsOnAnyNumberOfRanksAndAfterAnyStop) {
  for (std::uint64_t i = 0; i < 3; ++i) {
    draw(seed_ + i);
    SCOPED_TRACE(testing::Message() << "case " << i);
    std::mt19937_64 random(seed_ + i);
    const std::vector<float> whole = live({});
    for (const int ranks : {2, 3, 4, 9}) EXPECT_EQ(live({.ranks = ranks}), whole) << ranks;
    for (int cut = 0; cut < 2; ++cut) {
      const auto stop = std::int64_t(1 + random() % std::uint64_t(steps() - 1));
      const int before = int(1 + random() % 4), after = int(1 + random() % 4);
      remove_checkpoints(folder_ / "model.nc");
      live({.ranks = before, .stop_after = stop});
      EXPECT_EQ(live({.ranks = after, .resume = true}), whole)
          << "stopped after " << stop << " on " << before << ", resumed on " << after;
    }
  }
}

TEST_F(Augmented, StaysInMainMemoryWhereADeviceHoldsTheOtherSets) {
  draw(seed_);
  recipe_.network.layers[0].augment.flip = true;
  const std::vector<float> whole = live({});
  EXPECT_EQ(live({.moves_data = true}), whole);
  const std::unique_ptr<Runtime> runtime = make_test_runtime(1);
  const auto one = make_single_process();
  DataBinding sets = data();
  sets.move_to(runtime->context(*one).compute.memory, recipe_.network);
  HostBatch batch;
  const std::vector<Index> first = {0};
  for (const int layer : {0, 1}) {
    sets.set_of(layer).gather(first, batch);
    EXPECT_EQ(batch.stored, nullptr);
  }
  HostBatch targets;
  sets.set_of(3).gather(first, targets);
  EXPECT_NE(targets.stored, nullptr);
}

}  // namespace
}  // namespace norn::test

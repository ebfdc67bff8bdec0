// SPDX-License-Identifier: Apache-2.0
// Imports of images: what stands in the data sets, and what is refused.
#include "data/image_import.h"

#include "images.h"
#include "support.h"

#include <map>
#include <numeric>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn {
namespace {

namespace fs = std::filesystem;

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Import {
  TempDir folder;
  ImageImport options;
  std::vector<std::string> warnings;

  explicit Import(const std::string& input) {
    options.query.input = folder / input;
    options.output = folder / "made.nc";
    options.name = "made";
  }
  fs::path write(const std::string& name, const std::string& bytes) {
    fs::create_directories((folder / name).parent_path());
    write_text(folder / name, bytes);
    return folder / name;
  }
  ImportReport run() {
    return import_images(options, Log([this](LogLevel, const std::string& message) {
                           warnings.push_back(message);
                         }));
  }
  // With the test's folder taken out of it.
  template <typename Error = DataError>
  std::string error() {
    std::string text = message_of<Error>([&] { run(); });
    const std::string path = folder.path().string() + "/";
    for (std::size_t at = 0; (at = text.find(path)) != std::string::npos;)
      text.erase(at, path.size());
    return text;
  }
};

// A file's images and classes, as they stand in it.
struct Made {
  DatasetInfo input, output;
  std::vector<std::vector<std::uint8_t>> units;
  std::vector<std::string> classes, names;
};

Made read(const fs::path& file) {
  const std::vector<DatasetInfo> infos = list_datasets(file);
  EXPECT_EQ(infos.size(), 2u);
  Made made{infos.at(0), infos.at(1), {}, {}, read_example_labels(infos.at(0))};
  const auto set = open_dataset(made.input, Residency::stream, Role::target);
  for (const std::vector<float>& row : dense_rows(*set, 7)) {
    auto& units = made.units.emplace_back();
    for (const float value : row) units.push_back(std::uint8_t(value * 256));
  }
  const LabelIndex labels = made.output.unit_labels.index();
  for (const std::vector<float>& row :
       dense_rows(*open_dataset(made.output, Residency::memory, Role::target), 5)) {
    EXPECT_EQ(std::accumulate(row.begin(), row.end(), 0.0f), 1.0f);
    const auto number = std::ranges::find(row, 1.0f) - row.begin();
    made.classes.emplace_back(labels.label(number));
  }
  return made;
}

std::string idx_file(std::uint32_t magic, const std::vector<Index>& extents,
                     const std::vector<std::uint8_t>& bytes) {
  std::string file = big_endian(magic);
  for (const Index extent : extents) file += big_endian(std::uint32_t(extent));
  return file.append(bytes.begin(), bytes.end());
}

std::vector<std::uint8_t> random_bytes(Index count, unsigned below, std::mt19937& random) {
  std::vector<std::uint8_t> bytes(std::size_t(count), 0);
  for (std::uint8_t& byte : bytes) byte = std::uint8_t(random() % below);
  return bytes;
}

std::string gzip(const std::string& text) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = uInt(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = uInt(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

TEST(ImageImport, IdxPlainAndPacked) {
  std::mt19937 random(fresh_seed());
  for (const bool packed : {false, true}) {
    const std::string ending = packed ? ".gz" : "";
    Import import("some-images-idx3-ubyte" + ending);
    const Index count = 1 + Index(random() % 40), height = 1 + Index(random() % 9);
    const Index width = 1 + Index(random() % 9);
    const auto pixels = random_bytes(count * height * width, 256, random);
    const auto labels = random_bytes(count, 7, random);
    const auto as_stored = [&](const std::string& file) { return packed ? gzip(file) : file; };
    import.write("some-images-idx3-ubyte" + ending,
                 as_stored(idx_file(0x803, {count, height, width}, pixels)));
    import.write("some-labels-idx1-ubyte" + ending, as_stored(idx_file(0x801, {count}, labels)));
    EXPECT_EQ(import.run().input_rows, count);
    const Made made = read(import.options.output);
    EXPECT_EQ(made.input.type, ElementType::uint8);
    EXPECT_EQ(made.input.kind, 1u);
    EXPECT_EQ(made.input.dimensions, 2);
    EXPECT_THAT(made.input.extent, ElementsAre(width, height, 1));
    EXPECT_TRUE(made.output.own_units);
    EXPECT_EQ(made.output.width(), 1 + *std::ranges::max_element(labels));
    ASSERT_EQ(Index(made.units.size()), count);
    for (Index i = 0; i < count; ++i) {
      const auto begin = pixels.begin() + i * width * height;
      EXPECT_EQ(made.units[std::size_t(i)],
                std::vector<std::uint8_t>(begin, begin + width * height));
      EXPECT_EQ(made.classes[std::size_t(i)], std::to_string(labels[std::size_t(i)]));
      EXPECT_EQ(made.names[std::size_t(i)], std::to_string(i));
    }
  }
}

TEST(ImageImport, IdxOfTheLongestSidesIsRead) {
  std::mt19937 random(fresh_seed());
  for (const bool wide : {false, true}) {
    Import import("some-images-idx3-ubyte");
    const Index width = wide ? kLongestImageSide : 1, height = wide ? 1 : kLongestImageSide;
    const auto pixels = random_bytes(width * height, 256, random);
    import.write("some-labels-idx1-ubyte", idx_file(0x801, {1}, {0}));
    import.write("some-images-idx3-ubyte", idx_file(0x803, {1, height, width}, pixels));
    import.run();
    EXPECT_THAT(read(import.options.output).units, ElementsAre(pixels));
    import.write("some-images-idx3-ubyte",
                 idx_file(0x803, {1, height + !wide, width + wide}, pixels));
    EXPECT_THAT(import.error(),
                HasSubstr(": says that its images are larger than any that are read"));
  }
}

TEST(ImageImport, AFolderOfIdxGivesTrainingAndTest) {
  Import import("mnist");
  import.write("mnist/train-images-idx3-ubyte", idx_file(0x803, {2, 1, 2}, {1, 2, 3, 4}));
  import.write("mnist/train-labels-idx1-ubyte", idx_file(0x801, {2}, {1, 0}));
  import.write("mnist/t10k-images-idx3-ubyte", idx_file(0x803, {1, 1, 2}, {5, 6}));
  import.write("mnist/t10k-labels-idx1-ubyte", idx_file(0x801, {1}, {0}));
  EXPECT_EQ(import.run().files.size(), 2u);
  EXPECT_THAT(read(import.folder / "made.train.nc").classes, ElementsAre("1", "0"));
  const Made test = read(import.folder / "made.test.nc");
  EXPECT_THAT(test.units, ElementsAre(ElementsAre(5, 6)));
  EXPECT_EQ(test.output.width(), 2) << "classes of the training images";
  EXPECT_FALSE(fs::exists(import.options.output));
  import.options.split.kind = SplitRule::Kind::ratio;
  import.options.split.unit = SplitRule::Unit::example;
  import.options.split.ratios = {1, 1};
  EXPECT_EQ(import.error<UsageError>(),
            "`split`: mnist has images to train on and others to test on, and is written so; leave "
            "`split` out, or name one of its files");
  import.write("mnist/more-images-idx3-ubyte", "");
  EXPECT_EQ(import.error<UsageError>(),
            "`input` mnist: holds more-images-idx3-ubyte and train-images-idx3-ubyte; name the "
            "file itself");
}

TEST(ImageImport, CifarWithNamesAndWithout) {
  std::mt19937 random(fresh_seed());
  for (const int labels : {1, 2}) {
    Import import("cifar");
    std::map<std::string, std::vector<std::string>> records;
    for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "test_batch.bin"}) {
      std::string file;
      for (unsigned i = 0; i < 1 + random() % 3; ++i) {
        std::string record;
        if (labels == 2) record += char(random() % 20);
        record += char(random() % (labels == 1 ? 10 : 100));
        for (int byte = 0; byte < 3072; ++byte) record += char(random());
        records[name == std::string("test_batch.bin") ? "test" : "train"].push_back(record);
        file += record;
      }
      import.write(std::string("cifar/") + name, file);
    }
    std::string names;
    if (labels == 2)
      for (int i = 0; i < 100; ++i) names += fmt::format("thing {}\n", i);
    if (labels == 2) import.write("cifar/fine_label_names.txt", names + "\n");
    EXPECT_EQ(import.run().files.size(), 2u);
    for (const auto& [part, expected] : records) {
      const Made made = read(import.folder / ("made." + part + ".nc"));
      EXPECT_THAT(made.input.extent, ElementsAre(32, 32, 3));
      EXPECT_EQ(made.input.dimensions, 3);
      EXPECT_EQ(made.output.width(), labels == 1 ? 10 : 100);
      ASSERT_EQ(made.units.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const std::string& record = expected[i];
        EXPECT_EQ(made.units[i], std::vector<std::uint8_t>(record.begin() + labels, record.end()));
        const int label = std::uint8_t(record[std::size_t(labels) - 1]);
        EXPECT_EQ(made.classes[i], fmt::format("{}{}", labels == 1 ? "" : "thing ", label));
      }
    }
  }
}

TEST(ImageImport, FoldersOfClasses) {
  std::mt19937 random(fresh_seed());
  Import import("pets");
  const Image a = random_image({5, 3, 3}, random), b = random_image({5, 3, 3}, random);
  import.write("pets/dog/2.png", png_file(a));
  import.write("pets/cat/b.png", png_file(b));
  import.write("pets/cat/.hidden", "nothing");
  import.write("pets/dog/1.jpeg", jpeg_file(a));
  import.run();
  const Made made = read(import.options.output);
  EXPECT_THAT(made.names, ElementsAre("cat/b.png", "dog/1.jpeg", "dog/2.png"));
  EXPECT_THAT(made.classes, ElementsAre("cat", "dog", "dog"));
  EXPECT_EQ(made.units[0], planar(b));
  EXPECT_EQ(made.units[2], planar(a));
}

TEST(ImageImport, ListsOfPathsAndLabels) {
  std::mt19937 random(fresh_seed());
  const Image grey = random_image({4, 6, 1}, random), colour = random_image({9, 2, 3}, random);
  Import import("lists/list.csv");
  import.write("lists/a/1.png", png_file(grey));
  import.write("2.png", png_file(colour));
  import.write("lists/list.csv", "label,file\n10,a/1.png\n9,../2.png\n");
  import.options.query.list.example_column = "file";
  import.options.query.list.feature_column = "label";
  import.options.size = parse_image_size("7x5x3");
  import.run();
  const Made made = read(import.options.output);
  EXPECT_THAT(made.names, ElementsAre("a/1.png", "../2.png"));
  EXPECT_THAT(made.classes, ElementsAre("10", "9"));
  EXPECT_EQ(made.output.unit_labels.index().label(0), "9") << "numbers by their value";
  EXPECT_EQ(made.units[0], planar(with_channels(resized(grey, 7, 5), 3)));
  EXPECT_EQ(made.units[1], planar(resized(colour, 7, 5)));
}

TEST(ImageImport, ANameOfColumnsThatIsAClassIsDoubted) {
  std::mt19937 random(fresh_seed());
  Import import("list.csv");
  import.write("1.png", png_file(random_image({6, 5, 1}, random)));
  import.write("2.png", png_file(random_image({6, 5, 1}, random)));
  import.write("list.csv", "0.png,cat,stars\n1.png,dog,5\n2.png,cat,3\n");
  import.run();
  EXPECT_THAT(import.warnings,
              Contains(HasSubstr("the first line is taken for the names of columns: 0.png, cat, "
                                 "but \"cat\" is a feature of other lines, too; say with "
                                 "`header` no that it is data, or yes, that it is not")));
  import.warnings.clear();
  import.options.output = import.folder / "other.nc";
  import.write("list.csv", "0.png,cow,stars\n1.png,dog,5\n2.png,cat,3\n");
  import.run();
  EXPECT_THAT(import.warnings, Not(Contains(HasSubstr("the first line"))));
}

TEST(ImageImport, ASplitSharesOutWholeImages) {
  std::mt19937 random(fresh_seed());
  Import import("some-images-idx3-ubyte");
  import.write("some-images-idx3-ubyte",
               idx_file(0x803, {40, 1, 1}, random_bytes(40, 256, random)));
  import.write("labels", idx_file(0x801, {40}, random_bytes(40, 3, random)));
  import.options.query.labels = import.folder / "labels";
  import.options.split.kind = SplitRule::Kind::ratio;
  import.options.split.unit = SplitRule::Unit::example;
  import.options.split.ratios = {3, 1};
  import.run();
  const Made train = read(import.folder / "made.train.nc");
  const Made test = read(import.folder / "made.test.nc");
  EXPECT_EQ(train.units.size(), 30u);
  EXPECT_EQ(test.units.size(), 10u);
  EXPECT_EQ(train.output.width(), test.output.width());
  std::vector<int> seen;
  for (const Made* part : {&train, &test})
    for (const std::string& name : part->names) seen.push_back(std::stoi(name));
  std::ranges::sort(seen);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(seen[std::size_t(i)], i);
  import.write("some-images-idx3-ubyte", idx_file(0x803, {1, 1, 1}, {0}));
  import.write("labels", idx_file(0x801, {1}, {0}));
  EXPECT_EQ(import.error(),
            "made.test.nc: no images are left for it of 1; import more, or change `split`");
}

TEST(ImageImport, PassesOverSoManyDamagedImages) {
  std::mt19937 random(fresh_seed());
  const std::string whole = png_file(random_image({6, 6, 1}, random));
  Import import("all");
  import.write("all/x/1.png", whole);
  import.write("all/x/2.png", whole.substr(0, whole.size() / 2));
  import.write("all/x/3.txt", "words");
  EXPECT_THAT(import.error(), StartsWith("all/x/2.png: is no whole PNG: "));
  import.options.query.skip_malformed = 1;
  EXPECT_EQ(import.error(),
            "all/x/3.txt: is neither PNG nor JPEG; convert it, or remove it (as 1 image before "
            "it, which `skip_malformed` 1 passed over)");
  import.options.query.skip_malformed = 2;
  import.warnings.clear();
  EXPECT_EQ(import.run().malformed, 2);
  EXPECT_THAT(import.warnings, ElementsAre(HasSubstr("2.png: is no whole PNG")));
  EXPECT_THAT(read(import.options.output).names, ElementsAre("x/1.png"));
  fs::remove(import.folder / "all/x/1.png");
  EXPECT_EQ(import.error(), "all: no image is left; check the input");
}

TEST(ImageImport, FoldersThatAreNoneOfClassesAreRefused) {
  std::mt19937 random(fresh_seed());
  const std::string png = png_file(random_image({6, 6, 1}, random));
  Import import("all");
  EXPECT_EQ(import.error(), "all: no such file or folder; check the path");
  fs::create_directories(import.folder / "all");
  EXPECT_EQ(import.error(),
            "all: the folder is empty; put each class's images into a folder of its "
            "own, named for the class");
  import.write("all/1.png", png);
  EXPECT_EQ(import.error(),
            "all: holds no folders; put each class's images into a folder of its "
            "own, named for the class");
  import.write("all/x/1.png", png);
  EXPECT_EQ(import.error(),
            "all/1.png: stands beside the folders of classes; move it into one, or elsewhere");
  fs::remove(import.folder / "all/1.png");
  fs::create_directories(import.folder / "all/y");
  EXPECT_EQ(import.error(),
            "all/y: the folder of a class is empty; remove it, or put its images there");
  import.write("all/y/z/1.png", png);
  EXPECT_EQ(import.error(),
            "all/y/z: is a folder within that of a class; images of a class stand in "
            "one folder");
  import.options.query.input = import.folder / "all/x/1.png";
  EXPECT_EQ(import.error(),
            "all/x/1.png: is one image; name a folder with a folder of images for "
            "each class, or a list of paths and labels");
}

TEST(ImageImport, MixedSizesNameTheFirstThatDiffers) {
  std::mt19937 random(fresh_seed());
  Import import("all");
  import.write("all/x/1.png", png_file(random_image({6, 5, 1}, random)));
  import.write("all/x/2.png", png_file(random_image({6, 5, 1}, random)));
  import.write("all/y/3.png", png_file(random_image({6, 5, 3}, random)));
  EXPECT_EQ(import.error(),
            "all/y/3.png: is 6x5x3, where all/x/1.png is 6x5x1 (width x height x channels); give "
            "all one size, with `size` 6x5x3 for example");
  EXPECT_FALSE(fs::exists(import.options.output));
  import.options.size = parse_image_size("6x5x3");
  EXPECT_EQ(import.run().input_rows, 3);
}

TEST(ImageImport, ListsWithFaultsAreRefused) {
  std::mt19937 random(fresh_seed());
  Import import("list.csv");
  import.write("1.png", png_file(random_image({6, 5, 1}, random)));
  import.write("list.csv", "1.png,x\n1.png,y\n");
  EXPECT_EQ(import.error(),
            "list.csv:2: image \"1.png\" has been on an earlier line; remove one of them");
  import.write("list.csv", "1.png,x\n2.png,y\n");
  EXPECT_EQ(import.error(), "2.png: there is no such file; correct its path");
  fs::create_directories(import.folder / "2.png");
  EXPECT_EQ(import.error(), "2.png: cannot be read; check that it is a file, and its permissions");
  import.write("3.png", "");
  fs::resize_file(import.folder / "3.png", kLargestImage + 1);
  import.write("list.csv", "1.png,x\n3.png,y\n");
  EXPECT_EQ(import.error(),
            "3.png: has more than 256.0 MiB, the most that is read of an image; remove it");
}

TEST(ImageImport, DamagedIdxIsRefused) {
  Import import("a-images-idx3-ubyte");
  const auto images = [&](const std::string& bytes) { import.write("a-images-idx3-ubyte", bytes); };
  const auto labels = [&](const std::string& bytes) { import.write("a-labels-idx1-ubyte", bytes); };
  labels(idx_file(0x801, {2}, {0, 3}));
  images(idx_file(0x801, {2}, {0, 3}));
  EXPECT_EQ(import.error(),
            "a-images-idx3-ubyte: begins with 0x00000801, where idx of images begins "
            "with 0x00000803; check which file it is");
  images("");
  EXPECT_THAT(import.error(), HasSubstr("begins with nothing, where"));
  images(big_endian(0x803) + big_endian(2));
  EXPECT_EQ(import.error(),
            "a-images-idx3-ubyte: ends within its header; the file may be truncated "
            "or damaged, get it again");
  images(idx_file(0x803, {2, 1, 2}, {1, 2, 3}));
  EXPECT_THAT(import.error(), HasSubstr(": is shorter than its header says; "));
  images(idx_file(0x803, {2, 1, 2}, {1, 2, 3, 4, 5}));
  EXPECT_THAT(import.error(), HasSubstr(": is longer than its header says; "));
  images(idx_file(0x803, {2, 0, 2}, {}));
  EXPECT_THAT(import.error(), HasSubstr(": has no pixels; "));
  images(idx_file(0x803, {2, 60000, 60000}, {}));
  EXPECT_THAT(import.error(),
              HasSubstr(": says that its images are larger than any that are read"));
  images(idx_file(0x803, {3, 1, 1}, {1, 2, 3}));
  EXPECT_EQ(import.error(),
            "a-labels-idx1-ubyte: has 2 labels for the 3 images of "
            "a-images-idx3-ubyte; check which files belong together");
  images(idx_file(0x803, {4000000000, 1, 1}, {1, 2}));
  labels(idx_file(0x801, {4000000000}, {0, 3}));
  EXPECT_THAT(import.error(), HasSubstr("a-labels-idx1-ubyte: is shorter than its header says"));
  fs::rename(import.folder / "a-images-idx3-ubyte", import.folder / "a");
  import.options.query.input = import.folder / "a";
  EXPECT_EQ(import.error<UsageError>(),
            "a: its name does not tell which file has the labels; name it with `target`");
}

TEST(ImageImport, DamagedCifarIsRefused) {
  Import import("data_batch_1.bin");
  import.write("data_batch_1.bin", std::string(3000, 'x'));
  EXPECT_EQ(import.error(),
            "data_batch_1.bin: has 3000 bytes, which are no whole records of CIFAR-10 (3073) or "
            "CIFAR-100 (3074); the file may be truncated, get it again");
  import.write("data_batch_1.bin", std::string(3073, '\0') + '\x0a' + std::string(3072, '\0'));
  EXPECT_EQ(import.error(),
            "data_batch_1.bin: record 1: its label is 10, expected 0 to 9; the file "
            "may be damaged, get it again");
  import.write("batches.meta.txt", "one\ntwo\n");
  EXPECT_EQ(import.error(),
            "batches.meta.txt: names 2 classes, CIFAR-10 has 10; get the file again, or remove it");
  fs::remove(import.folder / "batches.meta.txt");
  // Packed, random bytes have a header of 10, a block's of 5 and an end of 8 more.
  std::mt19937 random(fresh_seed());
  const auto bytes = random_bytes(3050, 256, random);
  const std::string packed = gzip({bytes.begin(), bytes.end()});
  ASSERT_EQ(packed.size(), 3073u);
  import.write("data_batch_1.bin", packed);
  EXPECT_EQ(import.error(),
            "data_batch_1.bin: ends within a record; it is being written, or was cut off");
}

TEST(ImageImport, CifarOfTwoKindsIsRefused) {
  Import import("cifar");
  import.write("cifar/a.bin", std::string(3073, '\0'));
  import.write("cifar/b.bin", std::string(3074, '\0'));
  EXPECT_EQ(import.error(),
            "cifar/b.bin: has records of another kind than cifar/a.bin; import them apart");
}

TEST(ImageImport, SizesAreParsed) {
  EXPECT_EQ(parse_image_size("32x16"), (ImageSize{32, 16, 0}));
  EXPECT_EQ(parse_image_size("1x65535x1"), (ImageSize{1, 65535, 1}));
  for (const char* text : {"32", "x", "0x3", "3x0", "3x3x2", "3x3x0", "3x3x", "3x3x3x3", "ax3",
                           "65536x1", "65535x65535", "3 x 3", "-3x3"})
    EXPECT_THAT(message_of<UsageError>([&] { parse_image_size(text); }),
                StartsWith(fmt::format("`size` {}: expected WIDTHxHEIGHT", text)));
}

}  // namespace
}  // namespace norn

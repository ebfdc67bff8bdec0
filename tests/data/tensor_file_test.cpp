// SPDX-License-Identifier: Apache-2.0
// Model file containers: round trips, foreign files, damage.

#include "src/data/tensor_file.h"

#include "data/file_seal.h"
#include "support.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(TensorFile, AttributesComeBackTheSame) {
  const TempDir folder;
  TensorFileWriter writer(folder / "x.nc");
  writer.attribute("i32", std::int32_t(-7));
  writer.attribute("u32", std::uint32_t(4'000'000'000u));
  writer.attribute("i64", std::int64_t(-1) << 40);
  writer.attribute("u64", std::numeric_limits<std::uint64_t>::max());
  writer.attribute("f32", 0.1f);
  writer.attribute("f64", 0.1);
  writer.attribute("text", std::string("Grüße, \"Norn\"\n"));
  writer.attribute("empty", std::string());
  writer.commit();
  const TensorFileReader reader(folder / "x.nc");
  EXPECT_EQ(reader.integer("i32"), -7);
  EXPECT_EQ(reader.integer("u32"), 4'000'000'000);
  EXPECT_EQ(reader.integer("i64"), std::int64_t(-1) << 40);
  EXPECT_EQ(std::uint64_t(reader.integer("u64")), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(float(reader.number("f32")), 0.1f);
  EXPECT_EQ(reader.number("f64"), 0.1);
  EXPECT_EQ(reader.number("i32"), -7.0);
  EXPECT_EQ(reader.text("text"), "Grüße, \"Norn\"\n");
  EXPECT_EQ(reader.text("empty"), "");
  EXPECT_TRUE(reader.has_attribute("empty"));
  EXPECT_FALSE(reader.has_attribute("none"));
  EXPECT_EQ(reader.integer_or("none", 5), 5);
  EXPECT_EQ(reader.number_or("none", 0.5), 0.5);
  EXPECT_EQ(reader.text_or("none", "x"), "x");
  EXPECT_EQ(reader.integer_or("i32", 5), -7);
  EXPECT_THAT(message_of([&] { reader.integer("none"); }),
              HasSubstr("x.nc: attribute \"none\" is missing"));
  EXPECT_THAT(message_of([&] { reader.integer("text"); }),
              HasSubstr("attribute \"text\" is text, expected a whole number"));
  const auto expect = [&](const std::function<void()>& read, const char* words) {
    EXPECT_EQ(message_of(read), fmt::format("{}: {}; the file may be damaged or of another kind",
                                            (folder / "x.nc").string(), words));
  };
  expect([&] { reader.integer("f32"); },
         "attribute \"f32\" is 0.1, of a floating-point type, expected a whole number");
  expect([&] { reader.number("text"); }, "attribute \"text\" is text, expected a number");
  expect([&] { reader.text("f32"); }, "attribute \"f32\" is a number, expected text");
}

// Each item is written without looking at the others: a model of a thousand layers has as many.
TEST(TensorFile, ManyItemsAreWrittenAndRead) {
  constexpr int kAttributes = 30'000, kVariables = 3'000;
  const TempDir folder;
  {
    TensorFileWriter writer(folder / "x.nc");
    for (int i = 0; i < kAttributes; ++i) writer.attribute(fmt::format("a{}", i), std::int32_t(i));
    for (int i = 0; i < kVariables; ++i)
      writer.define_float(fmt::format("v{}", i), fmt::format("d{}", i), 2);
    for (int i = 0; i < kVariables; ++i) {
      const std::vector<float> values = {float(i), -1.0f};
      writer.write(fmt::format("v{}", i), 0, std::span(values));
    }
    writer.commit();
  }
  const TensorFileReader reader(folder / "x.nc");
  reader.verify();
  for (int i = 0; i < kAttributes; ++i) EXPECT_EQ(reader.integer(fmt::format("a{}", i)), i);
  std::vector<float> values(2);
  for (int i = 0; i < kVariables; ++i) {
    reader.read(fmt::format("v{}", i), 0, std::span(values));
    EXPECT_THAT(values, ElementsAre(float(i), -1.0f));
  }
}

TEST(TensorFile, VectorsWrittenInAnyOrderComeBackTheSame) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const TempDir folder;
  std::vector<float> weights(100'003);
  for (float& w : weights) w = std::ldexp(float(int(random())), -40);
  weights[5] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::uint8_t> bytes = {1, 0, 255};
  TensorFileWriter writer(folder / "x.nc");
  writer.define_float("weights", "weightsDim", Index(weights.size()));
  writer.define_bytes("bytes", "bytesDim", Index(bytes.size()));
  writer.define_float("nothing", "nothingDim", 0);
  const std::span<const float> all(weights);
  writer.write("weights", 60'000, all.subspan(60'000));
  writer.write("weights", 0, all.first(60'000));
  writer.write("bytes", 0, bytes);
  writer.commit();
  const TensorFileReader reader(folder / "x.nc");
  reader.verify();
  EXPECT_EQ(reader.size("weights"), Index(weights.size()));
  EXPECT_EQ(reader.size("nothing"), 0);
  std::vector<float> read(weights.size());
  reader.read("weights", 0, std::span<float>(read).first(10));
  reader.read("weights", 10, std::span<float>(read).subspan(10));
  EXPECT_EQ(std::memcmp(read.data(), weights.data(), weights.size() * sizeof(float)), 0);
  EXPECT_THAT(reader.read_bytes("bytes"), ElementsAre(char(1), char(0), char(255)));
  EXPECT_THAT(
      message_of([&] { reader.read("weights", 1, std::span<float>(read)); }),
      HasSubstr("variable \"weights\" has 100003 elements, elements 1 to 100004 are wanted"));
  EXPECT_THAT(message_of([&] { reader.read("none", 0, std::span<float>(read)); }),
              HasSubstr("variable \"none\" is missing"));
}

TEST(TensorFile, DoublesKeepTheirBitsAndAreVerified) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> draw(-1.0, 1.0);
  const TempDir folder;
  std::vector<double> values(10'007);
  for (double& value : values) value = std::ldexp(draw(random), int(random() % 600) - 300);
  TensorFileWriter writer(folder / "x.nc");
  writer.define_double("state", "stateDim", Index(values.size()));
  writer.define_double("nothing", "nothingDim", 0);
  const std::span<const double> all(values);
  writer.write("state", 0, all.first(77));
  writer.write("state", 77, all.subspan(77));
  EXPECT_THROW(writer.write("state", 0, std::span<const float>(std::vector<float>(2))), ShapeError);
  writer.commit();
  const TensorFileReader reader(folder / "x.nc");
  reader.verify();
  std::vector<double> read(values.size());
  reader.read("state", 0, std::span<double>(read).first(4'001));
  reader.read("state", 4'001, std::span<double>(read).subspan(4'001));
  EXPECT_EQ(std::memcmp(read.data(), values.data(), values.size() * sizeof(double)), 0);
}

TEST(TensorFile, ReadsForeignVariablesOfSeveralDimensionsAndTypesFlat) {
  const TempDir folder;
  write_cdl(folder / "x.nc", R"(netcdf x {
    dimensions: a = 3; b = 2; c = 4; one = 1;
    variables: double cube(a, b, c); int flat(a); short scalar_like(one);
      :version = 0.9f; string :name = "from elsewhere"; :list = 1, 2, 3;
    data: cube = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23;
      flat = 7, 8, 9; scalar_like = 5; })");
  const TensorFileReader reader(folder / "x.nc");
  EXPECT_EQ(reader.size("cube"), 24);
  for (Index first = 0; first < 24; ++first) {
    for (Index count = 0; first + count <= 24; ++count) {
      std::vector<float> values(std::size_t(count), -1.0f);
      reader.read("cube", first, std::span<float>(values));
      for (Index i = 0; i < count; ++i) ASSERT_EQ(values[std::size_t(i)], float(first + i));
    }
  }
  std::vector<float> real(2);
  reader.read("flat", 1, std::span<float>(real));
  EXPECT_THAT(real, ElementsAre(8.0f, 9.0f));
  EXPECT_EQ(reader.text("name"), "from elsewhere");
  EXPECT_THAT(message_of([&] { reader.integer("list"); }),
              HasSubstr("holds 3 values, expected one"));
  reader.verify();  // nothing to compare with
}

TEST(TensorFile, RefusesGapsAndDoubleWritesAndKeepsWhatWasThere) {
  const TempDir folder;
  write_text(folder / "x.nc", "precious");
  const std::vector<float> values(6, 1.0f);
  const auto write = [&](std::vector<std::pair<Index, std::size_t>> pieces) {
    return message_of<ShapeError>([&] {
      TensorFileWriter writer(folder / "x.nc");
      writer.define_float("v", "vDim", 10);
      for (const auto& [first, count] : pieces)
        writer.write("v", first, std::span(values).first(count));
      writer.commit();
    });
  };
  EXPECT_THAT(write({{0, 4}, {5, 5}}),
              HasSubstr("variable \"v\": element 4 was not written exactly once"));
  EXPECT_THAT(write({{0, 6}}), HasSubstr("element 6 was not written exactly once"));
  EXPECT_THAT(write({{0, 6}, {5, 5}}), HasSubstr("not written exactly once"));
  EXPECT_THAT(write({{6, 5}}), HasSubstr("elements 6 to 11 of variable \"v\" were not defined so"));
  EXPECT_EQ(read_text(folder / "x.nc"), "precious");
  EXPECT_EQ(write({{4, 6}, {0, 4}}), "no error");
}

TEST(TensorFile, VerifyNamesTheDamagedVariable) {
  const TempDir folder;
  TensorFileWriter writer(folder / "x.nc");
  writer.define_float("first", "firstDim", 4096);
  writer.define_float("second", "secondDim", 4096);
  writer.write("first", 0, std::vector<float>(4096, 1.25f));
  writer.write("second", 0, std::vector<float>(4096, 2.5f));
  writer.commit();
  std::string bytes = read_text(folder / "x.nc");
  const float stored = 2.5f;
  const std::size_t at = bytes.find(std::string(reinterpret_cast<const char*>(&stored), 4) +
                                    std::string(reinterpret_cast<const char*>(&stored), 4));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 401] = char(bytes[at + 401] ^ 1);
  write_text(folder / "damaged.nc", bytes);
  TensorFileReader(folder / "x.nc").verify();
  EXPECT_THAT(message_of([&] { TensorFileReader(folder / "damaged.nc").verify(); }),
              MatchesRegex(".*/damaged.nc: variable \"second\" is damaged: its checksum is "
                           "[0-9a-f]{8}, expected [0-9a-f]{8}; use an older copy of the file"));
}

TEST(TensorFile, NoFlippedByteAndNoCutGoesUnseen) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const TempDir folder;
  const auto path = folder / "x.nc";
  {
    TensorFileWriter writer(path);
    for (int i = 0; i < 40; ++i) writer.attribute(fmt::format("number{}", i), std::int32_t(i));
    writer.define_float("some", "someDim", 777);
    writer.define_float("none", "noneDim", 0);
    writer.define_bytes("whole", "wholeDim", 31);
    writer.write("some", 0, std::vector<float>(777, 1.25f));
    writer.write("whole", 0, std::vector<std::uint8_t>(31, 7));
    writer.commit();
  }
  const std::string bytes = read_text(path);
  const auto verify = [&] { TensorFileReader(path).verify(); };
  EXPECT_EQ(message_of(verify), "no error");
  constexpr std::size_t kMark = 8;  // the seal's last word: without it the seal is missing
  for (std::size_t at = random() % 7; at < bytes.size(); at += 1 + random() % 13) {
    std::string damaged = bytes;
    damaged[at] = char(damaged[at] ^ (1 << random() % 8));
    write_text(path, damaged);
    const std::string message = message_of(verify);
    ASSERT_THAT(message, HasSubstr("x.nc: ")) << "byte " << at << " of " << bytes.size();
    if (at + kMark >= bytes.size()) {
      EXPECT_THAT(message, HasSubstr("the end of the file is missing"));
    }
  }
  for (const std::size_t cut : {1, 8, 21, 100, 1000, 5000}) {
    write_text(path, bytes.substr(0, bytes.size() - cut));
    ASSERT_THAT(message_of(verify), HasSubstr("x.nc: ")) << cut;
  }
}

TEST(TensorFile, NamesDamageOfTheSealAndOfTheHeader) {
  const TempDir folder;
  const std::string file = (folder / "x.nc").string();
  {
    TensorFileWriter writer(file);
    writer.attribute("number", std::int32_t(1));
    writer.define_float("v", "vDim", 10);
    writer.write("v", 0, std::vector<float>(10, 1.0f));
    writer.commit();
  }
  const std::string bytes = read_text(file);
  const auto error = [&](std::size_t at, char flip) {
    std::string damaged = bytes;
    damaged[at] = char(damaged[at] ^ flip);
    write_text(file, damaged);
    return message_of([&] { TensorFileReader{file}; });
  };
  EXPECT_THAT(error(bytes.find("number"), 1),
              MatchesRegex(".*/x.nc: the header is damaged, or another program changed it: its "
                           "checksum is [0-9a-f]{8}, expected [0-9a-f]{8}; use an older copy of "
                           "the file"));
  // The count of runs, and the place of a run.
  const std::string words =
      file + ": the seal at its end is damaged; use an older copy of the file";
  EXPECT_EQ(error(bytes.size() - 13, 1), words);
  EXPECT_EQ(error(bytes.size() - 29, 1), words);
}

TEST(TensorFile, NamesTheFileWhenThereIsNoRoomForItsSeal) {
  const TempDir folder;
  const auto written = folder / "x.nc.tmp";
  write_text(written, std::string(1000, 'x'));
  EXPECT_EQ(
      with_file_size_limit(1000,
                           [&] { return message_of([&] { seal_file(written, {}, "x.nc"); }); }),
      "x.nc: its checksum cannot be written at its end: File too large; check the disk's free "
      "space and permissions");
}

TEST(TensorFile, NamesFilesThatAreMissingTruncatedOrTooLarge) {
  const TempDir folder;
  EXPECT_THAT(message_of([&] { TensorFileReader(folder / "none.nc"); }), HasSubstr("no such file"));
  const auto write = [&](const std::string& name) {
    TensorFileWriter writer(folder / name);
    writer.define_float("v", "vDim", 1 << 20);
    writer.write("v", 0, std::vector<float>(1 << 20, 1.0f));
    writer.commit();
  };
  write("x.nc");
  std::filesystem::resize_file(folder / "x.nc", 1 << 20);
  EXPECT_THAT(message_of([&] { TensorFileReader(folder / "x.nc"); }),
              HasSubstr("x.nc: cannot read as a NetCDF file"));
  EXPECT_THAT(with_file_size_limit(1 << 20, [&] { return message_of([&] { write("full.nc"); }); }),
              HasSubstr("full.nc: cannot"));
  EXPECT_FALSE(std::filesystem::exists(folder / "full.nc"));
}

TEST(TensorFile, MayBeUsedFromSeveralThreads) {
  const TempDir folder;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto path = folder / fmt::format("x{}.nc", t);
      for (int round = 0; round < 5; ++round) {
        TensorFileWriter writer(path);
        writer.attribute("round", std::int32_t(round));
        writer.define_float("v", "vDim", 1000);
        writer.write("v", 0, std::vector<float>(1000, float(t)));
        writer.commit();
        const TensorFileReader reader(path);
        std::vector<float> values(1000);
        reader.read("v", 0, std::span<float>(values));
        EXPECT_EQ(values, std::vector<float>(1000, float(t)));
        EXPECT_EQ(reader.integer("round"), round);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace norn

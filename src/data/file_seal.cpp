// SPDX-License-Identifier: Apache-2.0
// Checksums of headers, beneath the NetCDF library.

#include "file_seal.h"

#include "netcdf_thread.h"
#include "norn/base/error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include <fmt/format.h>
#include <hdf5.h>
#include <zlib.h>

namespace norn {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = "NornSeal";
constexpr std::uint64_t kTail = sizeof(std::uint64_t) + sizeof(std::uint32_t) + kMark.size();
constexpr std::uint64_t kReadBytes = std::uint64_t(1) << 20;

[[noreturn]] void fail(const fs::path& file, const std::string& problem) {
  throw DataError(fmt::format("{}: {}; use an older copy of the file", file.string(), problem));
}

/// The seal's text before the checksum.
std::string table_of(const std::vector<ByteRange>& elements) {
  std::string table;
  const auto put = [&table](std::uint64_t number) {
    table.append(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  for (const ByteRange& range : elements) {
    put(range.offset);
    put(range.size);
  }
  put(elements.size());
  return table;
}

std::uint64_t number_at(const std::string& text, std::size_t at) {
  std::uint64_t number = 0;
  std::memcpy(&number, text.data() + at, sizeof(number));
  return number;
}

/// CRC-32 of the bytes before `end` that lie in none of the ranges, then of the table. Nothing when
/// the ranges do not lie in order before `end`, or the file is shorter.
std::optional<std::uint32_t> header_checksum(std::ifstream& in, std::uint64_t end,
                                             const std::vector<ByteRange>& elements) {
  uLong sum = crc32_z(0, nullptr, 0);
  std::string buffer;
  std::uint64_t at = 0;
  const auto add_until = [&](std::uint64_t stop) {
    in.seekg(std::streamoff(at));
    while (at < stop && in) {
      buffer.resize(std::size_t(std::min(kReadBytes, stop - at)));
      in.read(buffer.data(), std::streamsize(buffer.size()));
      sum = crc32_z(sum, reinterpret_cast<const Bytef*>(buffer.data()), buffer.size());
      at += buffer.size();
    }
  };
  for (const ByteRange& range : elements) {
    if (range.offset < at || range.offset > end || range.size > end - range.offset)
      return std::nullopt;
    add_until(range.offset);
    at = range.offset + range.size;
  }
  add_until(end);
  if (!in) return std::nullopt;
  const std::string table = table_of(elements);
  sum = crc32_z(sum, reinterpret_cast<const Bytef*>(table.data()), table.size());
  return std::uint32_t(sum);
}

std::string read_at(std::ifstream& in, std::uint64_t offset, std::uint64_t size) {
  std::string text(std::size_t(size), '\0');
  in.seekg(std::streamoff(offset));
  in.read(text.data(), std::streamsize(size));
  if (!in) text.clear();
  return text;
}

/// False where it cannot be told. A variable of no elements has no place.
bool add_place(hid_t file, const std::string& variable, std::vector<ByteRange>& places) {
  const hid_t data = H5Dopen2(file, variable.c_str(), H5P_DEFAULT);
  if (data < 0) return false;
  const haddr_t offset = H5Dget_offset(data);
  const hsize_t size = H5Dget_storage_size(data);
  if (offset != HADDR_UNDEF && size > 0) places.push_back({offset, size});
  return H5Dclose(data) >= 0;
}

}  // namespace

std::vector<ByteRange> places_of(const fs::path& file, const std::vector<std::string>& variables,
                                 const fs::path& shown) {
  std::vector<ByteRange> places;
  bool known = false;
  on_netcdf_thread([&] {
    const hid_t opened = H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    if (opened < 0) return;
    known = std::ranges::all_of(variables, [&](const std::string& variable) {
      return add_place(opened, variable, places);
    });
    H5Fclose(opened);
  });
  if (!known)
    throw DataError(
        fmt::format("{}: what was written cannot be read back for its checksum; check the disk",
                    shown.string()));
  std::sort(places.begin(), places.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.offset < b.offset; });
  return places;
}

void seal_file(const fs::path& file, const std::vector<ByteRange>& elements,
               const fs::path& shown) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(file, error);
  std::optional<std::uint32_t> sum;
  if (!error) {
    std::ifstream in(file, std::ios::binary);
    sum = header_checksum(in, size, elements);
  }
  std::ofstream out(file, std::ios::binary | std::ios::app);
  if (sum) {
    out << table_of(elements);
    out.write(reinterpret_cast<const char*>(&*sum), sizeof(*sum));
    out << kMark;
  }
  out.close();
  if (!sum || !out)
    throw DataError(
        fmt::format("{}: its checksum cannot be written at its end: {}; check the disk's free "
                    "space and permissions",
                    shown.string(), error ? error.message() : std::strerror(errno)));
}

bool check_seal(const fs::path& file, const fs::path& shown) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(file, error);
  if (error || size < kTail) return false;
  std::ifstream in(file, std::ios::binary);
  const std::string tail = read_at(in, size - kTail, kTail);
  if (tail.empty() || tail.substr(tail.size() - kMark.size()) != kMark) return false;
  const std::uint64_t count = number_at(tail, 0);
  std::uint32_t expected = 0;
  std::memcpy(&expected, tail.data() + sizeof(count), sizeof(expected));
  const std::uint64_t before = size - kTail;
  if (count > before / sizeof(ByteRange)) fail(shown, "the seal at its end is damaged");
  const std::uint64_t end = before - count * sizeof(ByteRange);
  const std::string text = read_at(in, end, count * sizeof(ByteRange));
  std::vector<ByteRange> elements;
  for (std::size_t i = 0; i < text.size(); i += sizeof(ByteRange))
    elements.push_back({number_at(text, i), number_at(text, i + sizeof(std::uint64_t))});
  const auto sum = header_checksum(in, end, elements);
  if (!sum) fail(shown, "the seal at its end is damaged");
  if (*sum != expected)
    fail(shown, fmt::format("the header is damaged, or another program changed it: its checksum is "
                            "{:08x}, expected {:08x}",
                            *sum, expected));
  return true;
}

}  // namespace norn

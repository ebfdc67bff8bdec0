// SPDX-License-Identifier: Apache-2.0
// A walk over an HDF5 file's links, following none that leads elsewhere.

#include "hdf5_structure.h"

#include "netcdf_calls.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <hdf5.h>

namespace norn {

namespace {

#if H5_VERSION_GE(1, 12, 0)
using ObjectInfo = H5O_info1_t;
#else
using ObjectInfo = H5O_info_t;
#endif

constexpr std::ptrdiff_t kMostLevels = 32;
constexpr unsigned long long kMostUnpacked = 1032;  // times, by zlib (RFC 1951)
constexpr const char* kReadAlone = "of a file only what it holds itself is read";

/// An identifier of the library that is closed again.
class Opened {
 public:
  using Close = herr_t (*)(hid_t);
  Opened(hid_t id, Close close) : id_(id), close_(close) {
    if (id_ < 0) throw NetcdfProblem{nc_strerror(NC_EHDFERR)};
  }
  ~Opened() { close_(id_); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  Close close_;
};

/// A name that may hold anything, for a message.
std::string shown(std::string_view name) {
  constexpr std::size_t kLongest = 60;
  std::string text(name.substr(0, kLongest));
  std::ranges::replace_if(
      text, [](unsigned char letter) { return letter < ' ' || letter > '~'; }, '?');
  return text + (name.size() > kLongest ? "..." : "");
}

[[noreturn]] void refuse(const char* name, std::string_view what) {
  throw NetcdfProblem{fmt::format("\"{}\" {}", shown(name), what)};
}

/// A data set of the file.
class StoredData {
 public:
  StoredData(hid_t file, const char* name, unsigned long long file_bytes)
      : data_(H5Dopen2(file, name, H5P_DEFAULT), H5Dclose),
        how_(H5Dget_create_plist(data_), H5Pclose),
        file_bytes_(file_bytes) {
    const H5D_layout_t layout = H5Pget_layout(how_);
    const int elsewhere = layout == H5D_CONTIGUOUS ? H5Pget_external_count(how_) : 0;
    if (layout < 0 || elsewhere < 0) throw NetcdfProblem{nc_strerror(NC_EHDFERR)};
    if (layout == H5D_VIRTUAL)
      refuse(name, fmt::format("is made up of parts of other files, {}", kReadAlone));
    if (elsewhere > 0)
      refuse(name, fmt::format("has its elements in another file, {}", kReadAlone));
    filters_ = layout == H5D_CHUNKED ? H5Pget_nfilters(how_) : 0;
    if (filters_ < 0) throw NetcdfProblem{nc_strerror(NC_EHDFERR)};
  }

  bool is_packed() const { return filters_ > 0; }

  /// Empty: nothing is wrong with it.
  std::string fault() const {
    for (int number = 0; number < filters_; ++number) {
      std::size_t values = 0;
      const H5Z_filter_t filter =
          H5Pget_filter2(how_, unsigned(number), nullptr, &values, nullptr, 0, nullptr, nullptr);
      // The others are libraries that HDF5 would look for and load.
      if (filter < H5Z_FILTER_DEFLATE || filter > H5Z_FILTER_SCALEOFFSET)
        return fmt::format("is packed by filter {}, which HDF5 does not have itself", filter);
    }
    const Opened space(H5Dget_space(data_), H5Sclose);
    const Opened type(H5Dget_type(data_), H5Tclose);
    const hssize_t elements = H5Sget_simple_extent_npoints(space);
    const std::size_t each = H5Tget_size(type);
    if (elements < 0 || each == 0) return nc_strerror(NC_EHDFERR);
    unsigned long long bytes = 0;
    const bool counted =
        !__builtin_mul_overflow(static_cast<unsigned long long>(elements), each, &bytes);
    // What nobody has written reads as zeros, which are no harm where they are few.
    const bool few = counted && bytes <= file_bytes_;
    if (few || (counted && (is_packed() ? bytes / kMostUnpacked : bytes) <= stored_bytes()))
      return {};
    return fmt::format("has {} elements, which the file does not hold", elements);
  }

 private:
  /// In the file; more than it has is nothing that anybody stored.
  unsigned long long stored_bytes() const {
    const hsize_t bytes = H5Dget_storage_size(data_);
    return bytes > file_bytes_ ? 0 : bytes;
  }

  Opened data_;
  Opened how_;
  unsigned long long file_bytes_;
  int filters_ = 0;
};

class Walk {
 public:
  Walk(hid_t file, unsigned long long file_bytes, bool sealed)
      : file_(file), file_bytes_(file_bytes), sealed_(sealed) {
    enter("/");
  }

  /// What the library calls for every link; exceptions do not pass through it.
  static herr_t take(hid_t, const char* name, const H5L_info_t* link, void* self) {
    auto& walk = *static_cast<Walk*>(self);
    try {
      walk.look_at(name, *link);
      return 0;
    } catch (const NetcdfProblem& found) {
      walk.problem_ = found.text;
    } catch (const std::bad_alloc&) {
      walk.problem_ = "has more items than there is memory for";
    }
    return -1;
  }
  const std::string& problem() const { return problem_; }
  Unreadable take_unreadable() { return std::move(unreadable_); }

 private:
  void look_at(const char* name, const H5L_info_t& link) {
    if (link.type != H5L_TYPE_HARD)
      refuse(name, fmt::format("is a link to {}, {}",
                               link.type == H5L_TYPE_SOFT ? "a name" : "another file", kReadAlone));
    if (std::ranges::count(std::string_view(name), '/') >= kMostLevels)
      throw NetcdfProblem{fmt::format("has groups of more than {} levels", kMostLevels)};
    enter(name);
  }

  void enter(const char* name) {
    ObjectInfo object{};
    if (H5Oget_info_by_name2(file_, name, &object, H5O_INFO_BASIC, H5P_DEFAULT) < 0)
      throw NetcdfProblem{nc_strerror(NC_EHDFERR)};
    if (object.type == H5O_TYPE_GROUP) {
      if (sealed_ && !groups_.empty()) refuse(name, "is a group, which a sealed file never has");
      if (!groups_.insert(object.addr).second)
        throw NetcdfProblem{fmt::format("the group \"{}\" is within two groups", shown(name))};
    }
    if (object.type != H5O_TYPE_DATASET) return;
    const auto [known, is_new] = faults_.try_emplace(object.addr);
    if (is_new) {
      const StoredData data(file_, name, file_bytes_);
      if (sealed_ && data.is_packed()) refuse(name, "is packed, which a sealed file never is");
      known->second = data.fault();
    }
    if (!known->second.empty()) unreadable_.emplace(name, known->second);
  }

  hid_t file_;
  unsigned long long file_bytes_;
  bool sealed_;
  std::set<haddr_t> groups_;
  std::map<haddr_t, std::string> faults_;  // of data sets
  Unreadable unreadable_;
  std::string problem_;
};

/// NetCDF files of the formats before HDF5.
bool is_classic(const std::filesystem::path& file) {
  std::string magic(3, '\0');
  std::ifstream(file, std::ios::binary).read(magic.data(), std::streamsize(magic.size()));
  return magic == "CDF";
}

}  // namespace

Unreadable require_self_contained(const std::filesystem::path& file, bool sealed) {
  // What HDF5 has to say of a damaged file goes to nobody's screen.
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  if (H5Fis_hdf5(file.c_str()) <= 0) {
    if (is_classic(file)) return {};
    throw NetcdfProblem{nc_strerror(NC_ENOTNC)};
  }
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(file, error);
  if (error) throw NetcdfProblem{error.message()};
  const Opened opened(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  Walk walk(opened, bytes, sealed);
  if (H5Lvisit(opened, H5_INDEX_NAME, H5_ITER_NATIVE, Walk::take, &walk) >= 0)
    return walk.take_unreadable();
  throw NetcdfProblem{walk.problem().empty() ? nc_strerror(NC_EHDFERR) : walk.problem()};
}

}  // namespace norn

// SPDX-License-Identifier: Apache-2.0
// What makers say of their cards: NVIDIA's data sheets, products without sparsity, float32 sums.
#include "src/base/text.h"
#include "tools/doctor/doctor.h"

#include <array>

namespace norn::tools {
namespace {

struct KnownCard {
  const char* name;  // a part of the driver's name for it, in lower case; the first that fits holds
  double memory;     // gigabytes a second
  double tf32;       // TFLOP/s
  double bf16;
};

// Data sheets give products "with sparsity" for most; these are half of that.
constexpr std::array kCards = {
    KnownCard{"b200", 8000, 1100, 2250},           // NVIDIA HGX B200
    KnownCard{"h200 nvl", 4800, 417.5, 835.5},     // NVIDIA H200 Tensor Core GPU
    KnownCard{"h200", 4800, 494.5, 989.5},         // the same: SXM
    KnownCard{"h100 pcie", 2000, 378, 756},        // NVIDIA H100 Tensor Core GPU
    KnownCard{"h100 nvl", 3900, 417.5, 835.5},     // the same
    KnownCard{"h100", 3350, 494.5, 989.5},         // the same: SXM
    KnownCard{"a100-sxm4-40gb", 1555, 156, 312},   // NVIDIA A100 Tensor Core GPU
    KnownCard{"a100-pcie-40gb", 1555, 156, 312},   // the same
    KnownCard{"a100-sxm4-80gb", 2039, 156, 312},   // the same
    KnownCard{"a100 80gb pcie", 1935, 156, 312},   // the same
    KnownCard{"a30", 933, 82, 165},                // NVIDIA A30 Tensor Core GPU
    KnownCard{"a40", 696, 74.8, 149.7},            // NVIDIA A40
    KnownCard{"l40s", 864, 183, 362},              // NVIDIA L40S
    KnownCard{"l40", 864, 90.5, 181},              // NVIDIA L40
    KnownCard{"l4", 300, 60, 121},                 // NVIDIA L4
    KnownCard{"rtx 6000 ada", 960, 182.1, 364.2},  // NVIDIA RTX 6000 Ada Generation
    KnownCard{"rtx a6000", 768, 77.4, 154.8},      // NVIDIA RTX A6000
    KnownCard{"rtx 5090", 1792, 104.8, 209.5},     // NVIDIA RTX Blackwell GPU architecture
    KnownCard{"rtx 4090", 1008, 82.6, 165.2},      // NVIDIA Ada GPU architecture
    KnownCard{"rtx 3090", 936, 35.6, 71.0},        // NVIDIA Ampere GA102 GPU architecture
};

// bf16 operations of a multiprocessor in a cycle, by NVIDIA's architecture papers; tf32 has half.
double operations(int capability) {
  switch (capability) {
    case 80:
      return 2048;
    case 90:
      return 4096;
    case 100:
    case 103:
      return 8192;
    default:
      return capability >= 86 ? 512 : 0;  // the least of that architecture's cards
  }
}

}  // namespace

Card card_of(const GpuShape& gpu) {
  const std::string name = lower_case(gpu.name);
  for (const KnownCard& card : kCards)
    if (const std::size_t at = name.find(card.name); at != std::string::npos) {
      // "l4" is not in "l40".
      const std::size_t end = at + std::string(card.name).size();
      const bool starts = at == 0 || name[at - 1] == ' ';
      if (starts && (end == name.size() || name[end] == ' ' || name[end] == '-'))
        return {gpu.name, card.memory, card.tf32, card.bf16, false};
    }
  Card card{gpu.name, 0.0, 0.0, 0.0, true};
  card.memory = 1e-3 * 2.0 * gpu.memory_mhz * gpu.memory_bits / 8.0;
  card.bf16 = 1e-6 * gpu.multiprocessors * gpu.core_mhz * operations(gpu.capability);
  card.tf32 = card.bf16 / 2.0;
  return card;
}

}  // namespace norn::tools

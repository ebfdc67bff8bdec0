// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

/// Instruction sets that a build uses and that a processor has: a program that was built for a
/// newer one would end by an illegal instruction without a word. What stands here runs on any
/// x86-64, before everything else: it is compiled for the oldest one and calls no code that is not.
namespace norn::tools {

// name in messages, which is also that of the compiler's test of the processor, and the macro that
// says whether the compiler uses it.
#define NORN_CPU_FEATURES_OF_ALL(X)         \
  X("sse3", __SSE3__)                       \
  X("ssse3", __SSSE3__)                     \
  X("sse4.1", __SSE4_1__)                   \
  X("sse4.2", __SSE4_2__)                   \
  X("popcnt", __POPCNT__)                   \
  X("avx", __AVX__)                         \
  X("avx2", __AVX2__)                       \
  X("fma", __FMA__)                         \
  X("bmi", __BMI__)                         \
  X("bmi2", __BMI2__)                       \
  X("avx512f", __AVX512F__)                 \
  X("avx512cd", __AVX512CD__)               \
  X("avx512bw", __AVX512BW__)               \
  X("avx512dq", __AVX512DQ__)               \
  X("avx512vl", __AVX512VL__)               \
  X("avx512ifma", __AVX512IFMA__)           \
  X("avx512vbmi", __AVX512VBMI__)           \
  X("avx512vbmi2", __AVX512VBMI2__)         \
  X("avx512vnni", __AVX512VNNI__)           \
  X("avx512bitalg", __AVX512BITALG__)       \
  X("avx512vpopcntdq", __AVX512VPOPCNTDQ__) \
  X("gfni", __GFNI__)                       \
  X("vpclmulqdq", __VPCLMULQDQ__)
// Clang's test does not know these.
#if defined(__GNUC__) && !defined(__clang__)
#define NORN_CPU_FEATURES(X)      \
  NORN_CPU_FEATURES_OF_ALL(X)     \
  X("lzcnt", __LZCNT__)           \
  X("f16c", __F16C__)             \
  X("movbe", __MOVBE__)           \
  X("adx", __ADX__)               \
  X("vaes", __VAES__)             \
  X("avxvnni", __AVXVNNI__)       \
  X("avx512bf16", __AVX512BF16__) \
  X("avx512fp16", __AVX512FP16__)
#else
#define NORN_CPU_FEATURES(X) NORN_CPU_FEATURES_OF_ALL(X)
#endif

/// A bit for each of NORN_CPU_FEATURES, in its order.
using CpuFeatures = unsigned long long;

/// What this build was compiled for; 0 on processors that are not x86-64.
extern const CpuFeatures kNeededCpuFeatures;
/// What the processor has, and the operating system lets programs use.
CpuFeatures present_cpu_features();
/// The bit of a feature by its name; 0 for an unknown one.
CpuFeatures cpu_feature(const char* name);

/// What to say where `needed` has features that `present` lacks: `this processor lacks avx512f,
/// ...` and what to build with, without a line end. Returns false, and an empty text, where it
/// lacks none. The text ends with a zero and is cut where it would be longer than `size`.
bool describe_missing(CpuFeatures needed, CpuFeatures present, char* text, std::size_t size);

}  // namespace norn::tools

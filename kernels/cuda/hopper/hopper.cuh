// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda.h>

/// The instructions of compute capability 9.0a that have no name in CUDA C++: barriers in shared
/// memory, the bulk tensor copy engine, products of a warpgroup (128 threads). The PTX ISA has the
/// details. Addresses of shared memory are 32-bit.
namespace norn::cuda::hopper {

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return std::uint32_t(__cvta_generic_to_shared(pointer));
}

// Barriers. A phase is over when all arrivals and all announced bytes are in; `parity` is that of
// the phase that is waited for. A waiter may be behind by at most one phase.

__device__ inline void barrier_init(std::uint32_t barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
__device__ inline void barrier_init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// At the barrier of the same place in block `rank` of the cluster.
__device__ inline void barrier_arrive_at(std::uint32_t barrier, std::uint32_t rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
__device__ inline void barrier_arrive_expecting(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ inline void barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

__device__ inline void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}
__device__ inline std::uint32_t cluster_rank() {
  std::uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// True in one lane of the warp, which must be whole.
__device__ inline bool elected() {
  std::uint32_t is_elected;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xFFFFFFFF;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(is_elected));
  return is_elected != 0;
}

/// Barriers 1 to 15 of the block, for some of its warps: `threads` counts those that sync and those
/// that only arrive.
__device__ inline void named_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void named_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// Copies bytes in a row, a multiple of 16, from global memory; the barrier counts them.
__device__ inline void load_bytes(const void* from, std::uint32_t to, std::uint32_t barrier,
                                  std::uint32_t bytes) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// Tensor copies. `inner` is the coordinate within a row of the matrix, `outer` the row.

/// Into the same place of every block of the cluster whose bit is set in `blocks`; each one's
/// barrier counts the bytes.
__device__ inline void load_box_to(const CUtensorMap& map, std::uint32_t to, std::uint32_t barrier,
                                   int inner, int outer, std::uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(inner), "r"(outer), "h"(blocks)
      : "memory");
}
__device__ inline void load_box(const CUtensorMap& map, std::uint32_t to, std::uint32_t barrier,
                                int inner, int outer) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(inner), "r"(outer)
      : "memory");
}
/// Of several matrices, the boxes of one.
__device__ inline void load_box(const CUtensorMap& map, std::uint32_t to, std::uint32_t barrier,
                                int inner, int outer, int matrix) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(inner), "r"(outer), "r"(matrix)
      : "memory");
}
__device__ inline void load_box_to(const CUtensorMap& map, std::uint32_t to, std::uint32_t barrier,
                                   int inner, int outer, int matrix, std::uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(inner), "r"(outer), "r"(matrix), "h"(blocks)
      : "memory");
}
__device__ inline void store_box(const CUtensorMap& map, std::uint32_t from, int inner, int outer) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map),
      "r"(from), "r"(inner), "r"(outer)
      : "memory");
}
/// Of images as map_windows() and map_places() describe them: channels `inner` on of the places
/// from (x, y) of an example on, moved by (right, down).
__device__ inline void load_places(const CUtensorMap& map, std::uint32_t to, std::uint32_t barrier,
                                   int inner, int x, int y, int example, int right, int down) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(inner), "r"(x), "r"(y), "r"(example), "h"(std::uint16_t(right)),
      "h"(std::uint16_t(down))
      : "memory");
}
/// Of images as map_blocks() describes them, a block of places from (x, y) on.
__device__ inline void load_block(const CUtensorMap& map, std::uint32_t to, std::uint32_t barrier,
                                  int inner, int x, int y, int example) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(inner), "r"(x), "r"(y), "r"(example)
      : "memory");
}
__device__ inline void store_places(const CUtensorMap& map, std::uint32_t from, int inner, int x,
                                    int y, int example) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group"
      " [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
      "r"(from), "r"(inner), "r"(x), "r"(y), "r"(example)
      : "memory");
}
/// How the L2 cache treats what is read once: to be evicted first.
__device__ inline std::uint64_t once_policy() {
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ inline void load_box_once(const CUtensorMap& map, std::uint32_t to,
                                     std::uint32_t barrier, int inner, int outer,
                                     std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(inner), "r"(outer), "l"(policy)
      : "memory");
}
__device__ inline void commit_stores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// Until the sources of the thread's stores may be written again.
__device__ inline void wait_for_store_reads() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
/// Ordinary accesses to shared memory before it come before tensor copies and products after the
/// next barrier: writes are seen, and what was read may be overwritten. An arrival alone orders
/// neither.
__device__ inline void fence_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// Four 8x8 matrices of 16-bit elements to shared memory: lane l gives the address of row l % 8 of
/// matrix l / 8, value m holds two elements of row lane / 4 of matrix m.
__device__ inline void store_matrices(std::uint32_t row, const std::uint32_t (&value)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
               "r"(value[0]), "r"(value[1]), "r"(value[2]), "r"(value[3])
               : "memory");
}

// Products of a warpgroup.

/// How an operand lies in shared memory, in pieces of 64 rows of 128 bytes with the 128-byte
/// swizzle.
enum class Major {
  k,  ///< a row holds 64 values of k; 8 rows of m or n are 1024 bytes
  mn  ///< a row holds 64 values of m or n; 8 rows of k are 1024 bytes, 64 columns 8192
};

/// Descriptor of an operand whose rows hold 64 bytes of k, with the 64-byte swizzle: 8 rows are 512
/// bytes.
__device__ inline std::uint64_t narrow_operand(std::uint32_t address) {
  return std::uint64_t((address & 0x3FFFF) >> 4) | std::uint64_t(1) << 16 |
         std::uint64_t(512 / 16) << 32 | std::uint64_t(2) << 62;
}
/// Descriptor of an operand: address and the two distances in units of 16 bytes, swizzle of 128
/// bytes.
template <Major kMajor>
__device__ inline std::uint64_t operand(std::uint32_t address) {
  constexpr std::uint64_t kLeading = kMajor == Major::mn ? 8192 / 16 : 1;
  constexpr std::uint64_t kStride = 1024 / 16;
  return std::uint64_t((address & 0x3FFFF) >> 4) | kLeading << 16 | kStride << 32 |
         std::uint64_t(1) << 62;
}
/// Units of the address from one run of 16 values of k to the next.
template <Major kMajor>
constexpr std::uint64_t kNextK = (kMajor == Major::mn ? 2048 : 32) / 16;

__device__ inline void product_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void product_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ inline void product_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// Keeps the compiler from moving uses of the sums across this point.
template <int kCount>
__device__ inline void pin(float (&sum)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sum[i])::"memory");
}

/// d [64 x 128] += a [64 x 16] * b [16 x 128], bfloat16 with float sums. Thread i of the warpgroup
/// holds rows 16 * (i / 32) + (i % 32) / 4 and 8 more, columns 8 * j + i % 4 * 2 and 1 more:
/// d[4 * j + 2 * (row + 8) + column].
template <Major kMajorA, Major kMajorB>
__device__ inline void multiply_add_64x128x16(float (&d)[64], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, 1, 1, 1, %66, %67;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
        "+f"(d[63])
      : "l"(a), "l"(b), "n"(kMajorA == Major::mn), "n"(kMajorB == Major::mn));
}

}  // namespace norn::cuda::hopper

// How numbers are stored, and what the kernels that work on whole rows share.
//
// No header of CUDA's C++ library is included: conversions are single instructions, and a kernel is
// compiled from this folder's files alone.
#pragma once
#include <stdint.h>

// Tokens of a page. A page has one head's keys [token][component], then its values [component][token].
constexpr int PAGE = 32;
// The table of a row that is padding.
constexpr uint32_t PADDING = 0xffffffffu;
// The largest number of E4M3.
constexpr float FP8_LARGEST = 448.0f;
// A score that no key has. Finite, so that differences of two of them are numbers.
constexpr float NO_SCORE = -1e30f;
constexpr unsigned WARP = 0xffffffffu;

struct bf16 {
    uint16_t bits;
};
struct fp8 {
    uint8_t bits;
};

__device__ __forceinline__ float load(const float& from) { return from; }
__device__ __forceinline__ float load(const bf16& from) {
    return __uint_as_float((uint32_t)from.bits << 16);
}
// Two halves of one word, each from a byte of E4M3.
__device__ __forceinline__ uint32_t widen2(uint16_t bytes) {
    uint32_t halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(bytes));
    return halves;
}
__device__ __forceinline__ float half_to_float(uint16_t bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
__device__ __forceinline__ float load(const fp8& from) {
    return half_to_float((uint16_t)widen2(from.bits));
}

__device__ __forceinline__ void store(float& to, float value) { to = value; }
__device__ __forceinline__ void store(bf16& to, float value) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(value));
}
// Two bytes of E4M3, the first in the lower one. What is too large becomes the largest number.
__device__ __forceinline__ uint16_t narrow2(float first, float second) {
    uint16_t bytes;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %2, %1;" : "=h"(bytes) : "f"(first), "f"(second));
    return bytes;
}
__device__ __forceinline__ void store(fp8& to, float value) { to.bits = (uint8_t)narrow2(value, 0.0f); }
// Two numbers of BF16 in a word, the first in the lower half.
__device__ __forceinline__ uint32_t pack_bf16(float first, float second) {
    uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(first), "f"(second));
    return word;
}
// Two numbers of F16 in a word, the first in the lower half.
__device__ __forceinline__ uint32_t pack_f16(float first, float second) {
    uint32_t word;
    asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(first), "f"(second));
    return word;
}

// Rows are read and written in chunks of eight numbers, as wide as the row's length lets them be: a
// length that is no multiple of eight leaves rows unaligned.
constexpr int CHUNK = 8;

__device__ __forceinline__ void load_wide(const float* from, float* to) {
    const float4 a = *(const float4*)from, b = *(const float4*)(from + 4);
    to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w;
    to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
}
__device__ __forceinline__ void unpack(const uint4& words, float* to) {
    const uint32_t word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        to[2 * i] = __uint_as_float(word[i] << 16);
        to[2 * i + 1] = __uint_as_float(word[i] & 0xffff0000u);
    }
}
__device__ __forceinline__ void load_wide(const bf16* from, float* to) { unpack(*(const uint4*)from, to); }
__device__ __forceinline__ void load_wide(const fp8* from, float* to) {
    const uint2 words = *(const uint2*)from;
    const uint32_t word[2] = {words.x, words.y};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t halves = widen2((uint16_t)(word[i / 2] >> (i % 2 * 16)));
        to[2 * i] = half_to_float((uint16_t)halves);
        to[2 * i + 1] = half_to_float((uint16_t)(halves >> 16));
    }
}
__device__ __forceinline__ void store_wide(float* to, const float* from) {
    *(float4*)to = make_float4(from[0], from[1], from[2], from[3]);
    *(float4*)(to + 4) = make_float4(from[4], from[5], from[6], from[7]);
}
__device__ __forceinline__ void store_wide(bf16* to, const float* from) {
    *(uint4*)to = make_uint4(pack_bf16(from[0], from[1]), pack_bf16(from[2], from[3]),
                             pack_bf16(from[4], from[5]), pack_bf16(from[6], from[7]));
}
__device__ __forceinline__ void store_wide(fp8* to, const float* from) {
    const uint32_t low = narrow2(from[0], from[1]) | (uint32_t)narrow2(from[2], from[3]) << 16;
    const uint32_t high = narrow2(from[4], from[5]) | (uint32_t)narrow2(from[6], from[7]) << 16;
    *(uint2*)to = make_uint2(low, high);
}

// Chunk `at` of a row; zeros beyond its end.
template <class T>
__device__ __forceinline__ void load_chunk(const T* row, int at, int width, float* to) {
    if (width % CHUNK == 0) {
        load_wide(row + at, to);
        return;
    }
#pragma unroll
    for (int i = 0; i < CHUNK; i++) to[i] = at + i < width ? load(row[at + i]) : 0.0f;
}
template <class T>
__device__ __forceinline__ void store_chunk(T* row, int at, int width, const float* from) {
    if (width % CHUNK == 0) {
        store_wide(row + at, from);
        return;
    }
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        if (at + i < width) store(row[at + i], from[i]);
}

// Turns a chunk of a product into numbers: by the scale of its row and those of its columns.
__device__ __forceinline__ void scale_chunk(float* values, float row_scale, const float* column_scales,
                                            int at, int width) {
    if (column_scales) {
        float scales[CHUNK];
        load_chunk(column_scales, at, width, scales);
#pragma unroll
        for (int i = 0; i < CHUNK; i++) values[i] *= row_scale * scales[i];
    } else {
#pragma unroll
        for (int i = 0; i < CHUNK; i++) values[i] *= row_scale;
    }
}

__device__ __forceinline__ uint32_t cluster_blocks() {
    uint32_t count;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
    return count;
}
__device__ __forceinline__ uint32_t cluster_rank() {
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

// The kernels on whole rows have a cluster of blocks for each row, and a thread has this many chunks
// of it in registers at most. (The host chooses blocks and threads: `row_grid`.)
constexpr int KEPT = 4;

// The first number of the row that this thread has, and the way to its next.
__device__ __forceinline__ int first_number() {
    return (cluster_rank() * blockDim.x + threadIdx.x) * CHUNK;
}
__device__ __forceinline__ int next_number() { return cluster_blocks() * blockDim.x * CHUNK; }
__device__ __forceinline__ int row_of_cluster() { return blockIdx.x / cluster_blocks(); }

// To be called once, first: says that this block's shared memory may be written by its cluster.
__device__ __forceinline__ void begin_row() {
    if (cluster_blocks() > 1) cluster_arrive();
}

// Over all threads of the row: the sum of the one, the largest of the other. To be called once.
__device__ __forceinline__ float2 across_row(float sum, float largest) {
    __shared__ float2 of_warps[32];
    __shared__ float2 of_blocks[8];
#pragma unroll
    for (int step = 16; step; step /= 2) {
        sum += __shfl_xor_sync(WARP, sum, step);
        largest = fmaxf(largest, __shfl_xor_sync(WARP, largest, step));
    }
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = make_float2(sum, largest);
    __syncthreads();
    sum = 0.0f, largest = 0.0f;
    for (int warp = 0; warp < blockDim.x / 32; warp++) {
        sum += of_warps[warp].x;
        largest = fmaxf(largest, of_warps[warp].y);
    }
    const uint32_t blocks = cluster_blocks();
    if (blocks == 1) return make_float2(sum, largest);
    cluster_wait();
    if (threadIdx.x < blocks) {
        uint32_t there;
        asm("mapa.shared::cluster.u32 %0, %1, %2;"
            : "=r"(there)
            : "r"(shared_address(&of_blocks[cluster_rank()])), "r"(threadIdx.x));
        asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(there), "f"(sum), "f"(largest)
                     : "memory");
    }
    cluster_arrive();
    cluster_wait();
    sum = 0.0f, largest = 0.0f;
    for (uint32_t block = 0; block < blocks; block++) {
        sum += of_blocks[block].x;
        largest = fmaxf(largest, of_blocks[block].y);
    }
    return make_float2(sum, largest);
}

// The kernels on many whole rows: a thread has one chunk of a row, and the same one of the rows that its
// block takes next, so that what all rows share (scales of columns) is read once. The next row is fetched
// before the one at hand is put together: reading never waits for a barrier. Rows are then multiples of a
// chunk. (The host chooses blocks and threads: `many_rows`, `many_gates`.)

// The largest of a warp's numbers, none of which is negative.
__device__ __forceinline__ float largest_of_warp(float value) {
    return __uint_as_float(__reduce_max_sync(WARP, __float_as_uint(value)));
}

// What a row of activations is stored with: FP8 rows have a scale, by which their largest magnitude
// becomes the largest number there is.
template <class T>
struct Stored;
template <>
struct Stored<bf16> {
    __device__ static float factor(float, float*, int) { return 1.0f; }
};
template <>
struct Stored<fp8> {
    __device__ static float factor(float largest, float* scales, int row) {
        if (cluster_rank() == 0 && threadIdx.x == 0) scales[row] = largest / FP8_LARGEST;
        return largest > 0.0f ? FP8_LARGEST / largest : 0.0f;
    }
};

// What the kernels of attention have in common.
//
// Contexts are split: a part of a row's context gives a sum of values that is not divided yet, the
// largest score, and the sum of weights. `combine` puts parts together, whoever computed them.
// Scores are in powers of two: their scale has log2(e) in it.
#pragma once
#include "numbers.cuh"

struct Attend {
    const bf16* queries;
    const uint8_t* pool;
    const uint32_t* positions;
    const uint32_t* tables;
    const uint32_t* blocks;
    float* sums;    // [row][split][head][component]
    float2* stats;  // [row][split][head]: largest score, sum of weights
    uint64_t block_bytes;
    uint64_t layer_offset;
    uint32_t table_width, heads, kv_heads, head_size, first_row;
    float score_scale;
};

// Which pages of a row's context a split has.
struct Part {
    uint32_t first, end;
};
__device__ __forceinline__ Part part_of(uint32_t context, uint32_t split, uint32_t splits) {
    const uint32_t pages = (context + PAGE - 1) / PAGE;
    return {pages * split / splits, pages * (split + 1) / splits};
}

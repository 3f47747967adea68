// Attention of rows that decode, from FP8 pages, where a key's head has up to eight heads of queries.
//
// What counts is the rate at which keys and values come from memory. A block of four warps has a part
// of the context of one key head of one row; each warp takes every fourth page of it, through a ring of
// its own that the copy engine fills. A page is one piece of memory and is read in its order, so that
// there is nothing to gather and nothing to transpose.
//
// Keys are the matrix unit's left side, sixteen tokens at a time, and the queries of eight heads its
// right side: no part of it works for nothing. Which component, and which token, stands at which place
// of a fragment is free as long as both sides agree: each thread's places are such that it reads whole
// words. The product has tokens as rows and heads as columns; as right side of the product with values
// it needs them the other way round, which `movmatrix` does. Sums have components as rows and heads as
// columns, so that a thread shrinks its sums by what it has computed itself.
#include "copy_engine.cuh"

constexpr int WARPS = 4;
constexpr int STAGES = 2;
constexpr int HEADS = 8;

__device__ __forceinline__ uint32_t transposed(uint32_t pair) {
    uint32_t result;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(pair));
    return result;
}

// Over the threads that have the same heads.
__device__ __forceinline__ float largest_of(float value) {
    value = fmaxf(value, __shfl_xor_sync(WARP, value, 4));
    value = fmaxf(value, __shfl_xor_sync(WARP, value, 8));
    return fmaxf(value, __shfl_xor_sync(WARP, value, 16));
}
__device__ __forceinline__ float sum_of(float value) {
    value += __shfl_xor_sync(WARP, value, 4);
    value += __shfl_xor_sync(WARP, value, 8);
    return value + __shfl_xor_sync(WARP, value, 16);
}

template <int SIZE>
__device__ __forceinline__ void attend_decode(const Attend& op) {
    constexpr int HALF = PAGE * SIZE, BYTES = 2 * HALF;  // of a page: keys, then values
    constexpr int STEPS = SIZE / 16, STRIDE = SIZE + 4;  // the stride lets banks differ
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ __align__(8) uint64_t arrived[WARPS][STAGES];
    __shared__ float2 stats[WARPS][HEADS];
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const uint32_t split = blockIdx.x, splits = gridDim.x, kv_head = blockIdx.y;
    const uint32_t row = op.first_row + blockIdx.z, group = op.heads / op.kv_heads;
    const uint32_t barrier = shared_address(arrived[warp]);
    if (lane == 0) {
#pragma unroll
        for (int i = 0; i < STAGES; i++) make_barrier(barrier + 8 * i, 1);
    }
    show_barriers();
    __syncwarp();

    const uint32_t table = op.tables[row];
    const uint32_t context = table == PADDING ? 0 : op.positions[row] + 1;
    const Part part = part_of(context, split, splits);
    const uint32_t* blocks = op.blocks + (size_t)table * op.table_width;
    const uint8_t* pages = op.pool + op.layer_offset + (size_t)kv_head * BYTES;
    uint8_t* ring = shared + warp * STAGES * BYTES;
    uint32_t page = part.first + warp;
    // The block of the page that is fetched next: read before it is needed.
    size_t block = page < part.end ? blocks[page] : 0;
    auto fetch = [&](uint32_t page, uint32_t stage) {
        if (lane == 0 && page < part.end) {
            expect_bytes(barrier + 8 * stage, BYTES);
            copy_bytes(shared_address(ring + stage * BYTES), pages + block * op.block_bytes, BYTES, barrier + 8 * stage);
            if (page + WARPS < part.end) block = blocks[page + WARPS];
        }
    };
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) fetch(page + WARPS * i, i);

    // Thread t has components [t * SIZE / 4, (t + 1) * SIZE / 4), four for each step.
    uint32_t query[STEPS][2];
    {
        const bf16* from = op.queries + ((size_t)row * op.heads + kv_head * group + g) * SIZE + t * (SIZE / 4);
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            const uint2 four = g < group ? *(const uint2*)(from + 4 * k) : make_uint2(0, 0);
            query[k][0] = pack_f16(__uint_as_float(four.x << 16), __uint_as_float(four.x & 0xffff0000u));
            query[k][1] = pack_f16(__uint_as_float(four.y << 16), __uint_as_float(four.y & 0xffff0000u));
        }
    }

    // Of heads 2t and 2t + 1.
    float sums[STEPS][4] = {}, largest[2] = {NO_SCORE, NO_SCORE}, total[2] = {};
    const uint32_t first_token = g / 2 * 8 + g % 2;
    for (uint32_t n = 0; page < part.end; page += WARPS, n++) {
        const uint32_t stage = n % STAGES;
        __syncwarp();
        fetch(page + WARPS * (STAGES - 1), (n + STAGES - 1) % STAGES);
        wait_for(barrier + 8 * stage, n / STAGES % 2);
        const uint8_t* keys = ring + stage * BYTES;
        uint8_t* values = ring + stage * BYTES + HALF;
        const uint32_t seen = min(context - page * PAGE, (uint32_t)PAGE);

        // Scores of tokens first_token + {0, 2, 4, 6}: tiles of 16 tokens have two of them for a thread.
        float score[2][4] = {};
#pragma unroll
        for (int tile = 0; tile < 2; tile++) {
            uint32_t word[2][SIZE / 16];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const uint4* from = (const uint4*)(keys + (first_token + 4 * tile + 2 * i) * SIZE + t * (SIZE / 4));
                if constexpr (SIZE == 128) {
                    // Rows lie on the same banks, so every second one begins with its other half.
                    const bool other = g % 2;
                    const uint4 x = from[other], y = from[!other];
                    const uint4 a = other ? y : x, b = other ? x : y;
                    word[i][0] = a.x, word[i][1] = a.y, word[i][2] = a.z, word[i][3] = a.w;
                    word[i][4] = b.x, word[i][5] = b.y, word[i][6] = b.z, word[i][7] = b.w;
                } else {
                    const uint4 a = from[0];
                    word[i][0] = a.x, word[i][1] = a.y, word[i][2] = a.z, word[i][3] = a.w;
                }
            }
#pragma unroll
            for (int k = 0; k < STEPS; k++)
                multiply(score[tile], widen2((uint16_t)word[0][k]), widen2((uint16_t)word[1][k]),
                         widen2((uint16_t)(word[0][k] >> 16)), widen2((uint16_t)(word[1][k] >> 16)), query[k][0],
                         query[k][1]);
        }
        if (seen < PAGE) {
            // The context ends in this page. What lies beyond was never written, and may be no number.
            for (uint32_t word = lane; word < HALF / 4; word += 32) {
                const uint32_t token = word % (PAGE / 4) * 4;
                const uint32_t kept = seen > token ? min(seen - token, 4u) : 0;
                uint32_t* at = (uint32_t*)values + word;
                *at = kept == 4 ? *at : *at & ((1u << 8 * kept) - 1);
            }
            __syncwarp();
        }
        float best[2] = {largest[0], largest[1]};
#pragma unroll
        for (int tile = 0; tile < 2; tile++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const uint32_t token = first_token + 4 * tile + e / 2 * 2;
                score[tile][e] = token < seen ? score[tile][e] * op.score_scale : NO_SCORE;
                best[e % 2] = fmaxf(best[e % 2], score[tile][e]);
            }
        }
        float shrink[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            best[h] = largest_of(best[h]);
            shrink[h] = exp2f(largest[h] - best[h]);
            largest[h] = best[h];
            total[h] *= shrink[h];
        }
        uint32_t weight[2][2];
#pragma unroll
        for (int tile = 0; tile < 2; tile++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float first = exp2f(score[tile][2 * i] - best[0]), second = exp2f(score[tile][2 * i + 1] - best[1]);
                total[0] += first, total[1] += second;
                weight[tile][i] = transposed(pack_f16(first, second));
            }
        }
        // Thread t has tokens [8t, 8t + 8).
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            const uint2 above = *(const uint2*)(values + (16 * k + g) * PAGE + 8 * t);
            const uint2 below = *(const uint2*)(values + (16 * k + g + 8) * PAGE + 8 * t);
#pragma unroll
            for (int e = 0; e < 4; e++) sums[k][e] *= shrink[e % 2];
            multiply(sums[k], widen2((uint16_t)above.x), widen2((uint16_t)below.x), widen2((uint16_t)(above.x >> 16)),
                     widen2((uint16_t)(below.x >> 16)), weight[0][0], weight[0][1]);
            multiply(sums[k], widen2((uint16_t)above.y), widen2((uint16_t)below.y), widen2((uint16_t)(above.y >> 16)),
                     widen2((uint16_t)(below.y >> 16)), weight[1][0], weight[1][1]);
        }
    }

    // The four warps' parts, through shared memory that no copy is on its way to any more.
    __syncthreads();
    float* parts = (float*)shared;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        total[h] = sum_of(total[h]);
        if (g == 0) stats[warp][2 * t + h] = make_float2(largest[h], total[h]);
    }
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
#pragma unroll
        for (int e = 0; e < 4; e++)
            parts[(warp * HEADS + 2 * t + e % 2) * STRIDE + 16 * k + g + e / 2 * 8] = sums[k][e];
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < group * SIZE; i += WARPS * 32) {
        const uint32_t head = i / SIZE, component = i % SIZE;
        float best = NO_SCORE, sum = 0.0f, all = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS; w++) best = fmaxf(best, stats[w][head].x);
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const float factor = exp2f(stats[w][head].x - best);
            sum += factor * parts[(w * HEADS + head) * STRIDE + component];
            all += factor * stats[w][head].y;
        }
        const size_t place = ((size_t)blockIdx.z * splits + split) * op.heads + kv_head * group + head;
        op.sums[place * SIZE + component] = sum;
        if (component == 0) op.stats[place] = make_float2(best, all);
    }
}

extern "C" __global__ void __launch_bounds__(128) attend_decode_64(const __grid_constant__ Attend op) { attend_decode<64>(op); }
extern "C" __global__ void __launch_bounds__(128) attend_decode_128(const __grid_constant__ Attend op) { attend_decode<128>(op); }

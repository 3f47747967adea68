// Attention of any shape: what faster kernels are compared with, and what computes the shapes that they
// lack. A warp has a part of the context of one head of one row. Lanes are tokens for scores, then
// components for values.
#include "attend.cuh"

// Components of a head, by lane.
constexpr int COMPONENTS = 256 / 32;

template <class T>
__device__ __forceinline__ void attend_any(const Attend& op) {
    __shared__ float weights[PAGE];
    __shared__ float query[32 * COMPONENTS];
    const uint32_t split = blockIdx.x, splits = gridDim.x, head = blockIdx.y, lane = threadIdx.x;
    const uint32_t row = op.first_row + blockIdx.z, table = op.tables[row], size = op.head_size;
    const uint32_t context = table == PADDING ? 0 : op.positions[row] + 1;
    const Part part = part_of(context, split, splits);
    const uint32_t kv_head = head / (op.heads / op.kv_heads);
    for (uint32_t i = lane; i < size; i += 32)
        query[i] = load(op.queries[((size_t)row * op.heads + head) * size + i]);
    __syncwarp();
    float sums[COMPONENTS] = {}, largest = NO_SCORE, total = 0.0f;
    for (uint32_t page = part.first; page < part.end; page++) {
        const size_t block = op.blocks[(size_t)table * op.table_width + page];
        const T* keys = (const T*)(op.pool + block * op.block_bytes + op.layer_offset) + (size_t)kv_head * 2 * PAGE * size;
        const T* values = keys + PAGE * size;
        float score = 0.0f;
        for (uint32_t i = 0; i < size; i++) score += query[i] * load(keys[lane * size + i]);
        const bool seen = page * PAGE + lane < context;
        score = seen ? score * op.score_scale : NO_SCORE;
        float best = fmaxf(largest, score);
#pragma unroll
        for (int step = 16; step; step /= 2) best = fmaxf(best, __shfl_xor_sync(WARP, best, step));
        const float shrink = exp2f(largest - best), weight = seen ? exp2f(score - best) : 0.0f;
        largest = best;
        float added = weight;
#pragma unroll
        for (int step = 16; step; step /= 2) added += __shfl_xor_sync(WARP, added, step);
        total = total * shrink + added;
        weights[lane] = weight;
        __syncwarp();
        const uint32_t tokens = min(context - page * PAGE, (uint32_t)PAGE);
#pragma unroll
        for (int i = 0; i < COMPONENTS; i++) {
            const uint32_t component = i * 32 + lane;
            if (component >= size) break;
            sums[i] *= shrink;
            // What lies beyond the context was never written, and may be no number.
            for (uint32_t token = 0; token < tokens; token++)
                sums[i] += weights[token] * load(values[component * PAGE + token]);
        }
        __syncwarp();
    }
    const size_t place = ((size_t)blockIdx.z * splits + split) * op.heads + head;
    if (lane == 0) op.stats[place] = make_float2(largest, total);
#pragma unroll
    for (int i = 0; i < COMPONENTS; i++)
        if (i * 32 + lane < size) op.sums[place * size + i * 32 + lane] = sums[i];
}

extern "C" __global__ void __launch_bounds__(32) attend_any_bf16(const __grid_constant__ Attend op) { attend_any<bf16>(op); }
extern "C" __global__ void __launch_bounds__(32) attend_any_fp8(const __grid_constant__ Attend op) { attend_any<fp8>(op); }

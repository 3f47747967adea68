// Puts the parts of attention together, divides, and stores the row as activations.
#include "attend.cuh"

struct Combine {
    const float* sums;
    const float2* stats;
    void* out;
    float* out_scales;
    uint32_t splits, heads, head_size, first_row;
    float value_scale;
};

template <class T>
__device__ __forceinline__ void combine(const Combine& op) {
    begin_row();
    const int row = row_of_cluster(), width = op.heads * op.head_size;
    float kept[KEPT][CHUNK], largest = 0.0f;
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        const int at = first_number() + k * next_number();
        if (at >= width) break;
        // A chunk lies in one head, as heads have a multiple of eight components.
        const size_t head = at / op.head_size, first = (size_t)row * op.splits;
        float best = NO_SCORE;
        for (uint32_t split = 0; split < op.splits; split++)
            best = fmaxf(best, op.stats[(first + split) * op.heads + head].x);
        float total = 0.0f;
#pragma unroll
        for (int i = 0; i < CHUNK; i++) kept[k][i] = 0.0f;
#pragma unroll 8
        for (uint32_t split = 0; split < op.splits; split++) {
            const float2 stat = op.stats[(first + split) * op.heads + head];
            const float weight = exp2f(stat.x - best);
            float sums[CHUNK];
            load_wide(op.sums + (first + split) * width + at, sums);
            total += stat.y * weight;
#pragma unroll
            for (int i = 0; i < CHUNK; i++) kept[k][i] += sums[i] * weight;
        }
        // Padding has no keys, and gets zeros.
        const float by_total = total > 0.0f ? op.value_scale / total : 0.0f;
#pragma unroll
        for (int i = 0; i < CHUNK; i++) {
            kept[k][i] *= by_total;
            largest = fmaxf(largest, fabsf(kept[k][i]));
        }
    }
    const int out_row = op.first_row + row;
    float factor = 1.0f;
    if (sizeof(T) == sizeof(fp8)) {
        factor = Stored<T>::factor(across_row(0.0f, largest).y, op.out_scales, out_row);
    } else if (cluster_blocks() > 1) {
        cluster_wait();
    }
    T* out = (T*)op.out + (size_t)out_row * width;
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        const int at = first_number() + k * next_number();
        if (at >= width) break;
#pragma unroll
        for (int i = 0; i < CHUNK; i++) kept[k][i] *= factor;
        store_chunk(out, at, width, kept[k]);
    }
}

// Rows of BF16 become activations of FP8: what attention of prompts leaves where contexts have one part.
struct Quantise {
    const bf16* values;
    fp8* out;
    float* out_scales;
    uint32_t width, rows;  // at most 1,024 chunks
};

extern "C" __global__ void __launch_bounds__(1024, 2) quantise_rows(const __grid_constant__ Quantise op) {
    __shared__ float of_warps[2][32];
    const uint32_t at = threadIdx.x * CHUNK, lane = threadIdx.x % 32;
    const bool is_in = at < op.width;
    uint4 words = {};
    auto fetch = [&](uint32_t row) {
        if (is_in && row < op.rows) words = *(const uint4*)(op.values + (size_t)row * op.width + at);
    };
    fetch(blockIdx.x);
    uint32_t turn = 0;
    for (uint32_t row = blockIdx.x; row < op.rows; row += gridDim.x, turn ^= 1) {
        float kept[CHUNK], largest = 0.0f;
        unpack(words, kept);
        fetch(row + gridDim.x);
#pragma unroll
        for (int i = 0; i < CHUNK; i++) largest = fmaxf(largest, fabsf(kept[i]));
        largest = largest_of_warp(largest);
        // Two buffers in turn need one barrier a row.
        if (lane == 0) of_warps[turn][threadIdx.x / 32] = largest;
        __syncthreads();
        largest = largest_of_warp(lane < blockDim.x / 32 ? of_warps[turn][lane] : 0.0f);
        const float factor = Stored<fp8>::factor(largest, op.out_scales, row);
#pragma unroll
        for (int i = 0; i < CHUNK; i++) kept[i] *= factor;
        if (is_in) store_wide(op.out + (size_t)row * op.width + at, kept);
    }
}

extern "C" __global__ void __launch_bounds__(256, 2) combine_bf16(const __grid_constant__ Combine op) { combine<bf16>(op); }
extern "C" __global__ void __launch_bounds__(256, 2) combine_fp8(const __grid_constant__ Combine op) { combine<fp8>(op); }

// The likeliest token of each row, the first of equals. Not a number anywhere: none.
#include "numbers.cuh"

struct Likeliest {
    const float* logits;
    uint32_t* tokens;
    uint32_t vocabulary;
};

struct Best {
    float value;
    uint32_t token;
};
__device__ __forceinline__ Best better(Best a, Best b) {
    return b.value > a.value || (b.value == a.value && b.token < a.token) ? b : a;
}

extern "C" __global__ void __launch_bounds__(1024) likeliest(const __grid_constant__ Likeliest op) {
    __shared__ Best of_warps[32];
    const float* logits = op.logits + (size_t)blockIdx.x * op.vocabulary;
    Best best = {-INFINITY, PADDING};
    bool broken = false;
    // In order, so that the first of a thread's equals stays.
    for (uint32_t token = threadIdx.x; token < op.vocabulary; token += blockDim.x) {
        const float value = logits[token];
        broken |= isnan(value);
        if (value > best.value || best.token == PADDING) best = {value, token};
    }
#pragma unroll
    for (int step = 16; step; step /= 2) {
        const Best other = {__shfl_xor_sync(WARP, best.value, step), __shfl_xor_sync(WARP, best.token, step)};
        best = better(best, other);
    }
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = best;
    broken = __syncthreads_or(broken);
    if (threadIdx.x) return;
    for (uint32_t warp = 1; warp < blockDim.x / 32; warp++) best = better(best, of_warps[warp]);
    op.tokens[blockIdx.x] = broken ? PADDING : best.token;
}

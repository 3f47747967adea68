// Normal numbers from a hash of seed and place: weights for measuring.
#include "numbers.cuh"

struct FillRandom {
    void* to;
    uint64_t count;
    uint64_t seed;
    float deviation;
};

// A hash whose every bit depends on every bit of the number: Vigna's splitmix64.
__device__ __forceinline__ uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// Box and Muller's transformation of the hash's halves, as shares of 2^32.
template <class T>
__device__ __forceinline__ void fill_random(const FillRandom& op) {
    const uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t at = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; at < op.count; at += stride) {
        const uint64_t hash = mixed(op.seed + (at + 1) * 0x9e3779b97f4a7c15ull);
        const float a = (float)(uint32_t)(hash >> 32) * 0x1p-32f + 0x1p-32f, b = (float)(uint32_t)hash * 0x1p-32f;
        // Rounding may have made it more than one.
        const float length = sqrtf(-2.0f * logf(fminf(a, 1.0f)));
        store(((T*)op.to)[at], length * cospif(2.0f * b) * op.deviation);
    }
}

extern "C" __global__ void fill_random_f32(const __grid_constant__ FillRandom op) { fill_random<float>(op); }
extern "C" __global__ void fill_random_bf16(const __grid_constant__ FillRandom op) { fill_random<bf16>(op); }
extern "C" __global__ void fill_random_fp8(const __grid_constant__ FillRandom op) { fill_random<fp8>(op); }

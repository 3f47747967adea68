// Products of shapes that the library refuses: sizes that are no multiple of 16, in tiny models. A warp
// has one number of the result.
#include "numbers.cuh"

struct Gemm {
    const void* input;
    const void* weight;
    void* out;
    uint32_t inputs, outputs;
};

template <class T, class U>
__device__ __forceinline__ void gemm_any(const Gemm& op) {
    const uint32_t output = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (output >= op.outputs) return;
    const size_t row = blockIdx.y;
    const T* input = (const T*)op.input + row * op.inputs;
    const T* weight = (const T*)op.weight + (size_t)output * op.inputs;
    float sum = 0.0f;
    for (uint32_t i = threadIdx.x % 32; i < op.inputs; i += 32) sum += load(input[i]) * load(weight[i]);
#pragma unroll
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(WARP, sum, step);
    if (threadIdx.x % 32 == 0) store(((U*)op.out)[row * op.outputs + output], sum);
}

extern "C" __global__ void gemm_bf16_bf16(const __grid_constant__ Gemm op) { gemm_any<bf16, bf16>(op); }
extern "C" __global__ void gemm_bf16_f32(const __grid_constant__ Gemm op) { gemm_any<bf16, float>(op); }
extern "C" __global__ void gemm_fp8_bf16(const __grid_constant__ Gemm op) { gemm_any<fp8, bf16>(op); }
extern "C" __global__ void gemm_fp8_f32(const __grid_constant__ Gemm op) { gemm_any<fp8, float>(op); }

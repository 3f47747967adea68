// Rows of the embedding table, by token; or of the residual stream, by row.
#include "numbers.cuh"

struct Embed {
    const uint32_t* tokens;
    const void* table;
    const float* scales;  // of the table's rows, with FP8
    float* residual;
    uint32_t width, vocabulary;
};

template <class T>
__device__ __forceinline__ void embed(const Embed& op) {
    const size_t row = blockIdx.x;
    const uint32_t token = op.tokens[row];
    // Padding has no token; it gets zeros.
    const bool known = token < op.vocabulary;
    const T* from = (const T*)op.table + (size_t)(known ? token : 0) * op.width;
    const float scale = !known ? 0.0f : op.scales ? op.scales[token] : 1.0f;
    for (int i = threadIdx.x; i < op.width; i += blockDim.x)
        op.residual[row * op.width + i] = known ? load(from[i]) * scale : 0.0f;
}

extern "C" __global__ void embed_f32(const __grid_constant__ Embed op) { embed<float>(op); }
extern "C" __global__ void embed_bf16(const __grid_constant__ Embed op) { embed<bf16>(op); }
extern "C" __global__ void embed_fp8(const __grid_constant__ Embed op) { embed<fp8>(op); }

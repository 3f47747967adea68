// Adds a product to the residual stream, and divides rows by their root mean square.
#include "numbers.cuh"

struct Norm {
    float* residual;
    const void* addition;  // none: nothing is added
    const float* row_scales;
    const float* column_scales;
    const float* weight;
    void* out;
    float* out_scales;
    uint32_t width;
    float epsilon;
};

template <class T>
__device__ __forceinline__ void norm(const Norm& op) {
    begin_row();
    const int row = row_of_cluster(), width = op.width;
    float* residual = op.residual + (size_t)row * width;
    const bf16* addition = (const bf16*)op.addition + (size_t)row * width;
    const float row_scale = op.row_scales ? op.row_scales[row] : 1.0f;
    float kept[KEPT][CHUNK], squares = 0.0f, largest = 0.0f;
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        const int at = first_number() + k * next_number();
        if (at >= width) break;
        float weight[CHUNK];
        load_chunk(residual, at, width, kept[k]);
        load_chunk(op.weight, at, width, weight);
        if (op.addition) {
            float added[CHUNK];
            load_chunk(addition, at, width, added);
            scale_chunk(added, row_scale, op.column_scales, at, width);
#pragma unroll
            for (int i = 0; i < CHUNK; i++) kept[k][i] += added[i];
            store_chunk(residual, at, width, kept[k]);
        }
#pragma unroll
        for (int i = 0; i < CHUNK; i++) {
            squares += kept[k][i] * kept[k][i];
            kept[k][i] *= weight[i];
            largest = fmaxf(largest, fabsf(kept[k][i]));
        }
    }
    const float2 of_row = across_row(squares, largest);
    const float by_root = rsqrtf(of_row.x / width + op.epsilon);
    const float factor = by_root * Stored<T>::factor(of_row.y * by_root, op.out_scales, row);
    T* out = (T*)op.out + (size_t)row * width;
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        const int at = first_number() + k * next_number();
        if (at >= width) break;
#pragma unroll
        for (int i = 0; i < CHUNK; i++) kept[k][i] *= factor;
        store_chunk(out, at, width, kept[k]);
    }
}

extern "C" __global__ void __launch_bounds__(256, 3) norm_bf16(const __grid_constant__ Norm op) { norm<bf16>(op); }
extern "C" __global__ void __launch_bounds__(256, 3) norm_fp8(const __grid_constant__ Norm op) { norm<fp8>(op); }

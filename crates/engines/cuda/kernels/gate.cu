// silu(gate) * up.
#include "numbers.cuh"

struct Gate {
    const bf16* gate_up;  // each row: all gates, then all ups
    const float* row_scales;
    const float* column_scales;
    void* out;
    float* out_scales;
    uint32_t width;  // of the result
};

template <class T>
__device__ __forceinline__ void gate(const Gate& op) {
    begin_row();
    const int row = row_of_cluster(), width = op.width;
    const bf16* gates = op.gate_up + (size_t)row * 2 * width;
    const float row_scale = op.row_scales ? op.row_scales[row] : 1.0f;
    const float* up_scales = op.column_scales ? op.column_scales + width : nullptr;
    float kept[KEPT][CHUNK], largest = 0.0f;
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        const int at = first_number() + k * next_number();
        if (at >= width) break;
        float up[CHUNK];
        load_chunk(gates, at, width, kept[k]);
        load_chunk(gates + width, at, width, up);
        scale_chunk(kept[k], row_scale, op.column_scales, at, width);
        scale_chunk(up, row_scale, up_scales, at, width);
#pragma unroll
        for (int i = 0; i < CHUNK; i++) {
            kept[k][i] = kept[k][i] / (1.0f + __expf(-kept[k][i])) * up[i];
            largest = fmaxf(largest, fabsf(kept[k][i]));
        }
    }
    float factor = 1.0f;
    if (sizeof(T) == sizeof(fp8)) {
        factor = Stored<T>::factor(across_row(0.0f, largest).y, op.out_scales, row);
    } else if (cluster_blocks() > 1) {
        cluster_wait();
    }
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

extern "C" __global__ void __launch_bounds__(256, 3) gate_bf16(const __grid_constant__ Gate op) { gate<bf16>(op); }
extern "C" __global__ void __launch_bounds__(256, 3) gate_fp8(const __grid_constant__ Gate op) { gate<fp8>(op); }

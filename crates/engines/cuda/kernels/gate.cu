// silu(gate) * up.
#include "numbers.cuh"

struct Gate {
    const bf16* gate_up;  // each row: all gates, then all ups
    const float* row_scales;
    const float* column_scales;
    void* out;
    float* out_scales;
    uint32_t width, rows;  // of the result
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

// The same for many rows: a cluster of blocks takes two at a time.
template <class T>
__device__ __forceinline__ void gate_rows(const Gate& op) {
    constexpr int ROWS = 2;
    __shared__ float of_warps[2][ROWS][32];
    __shared__ float of_blocks[2][ROWS][8];
    const uint32_t width = op.width, blocks = cluster_blocks(), rank = cluster_rank(), lane = threadIdx.x % 32;
    const uint32_t at = (rank * blockDim.x + threadIdx.x) * CHUNK, next = gridDim.x / blocks * ROWS;
    const bool is_in = at < width;
    float gate_scales[CHUNK], up_scales[CHUNK];
#pragma unroll
    for (int i = 0; i < CHUNK; i++) gate_scales[i] = up_scales[i] = 1.0f;
    if (is_in && op.column_scales) {
        load_wide(op.column_scales + at, gate_scales);
        load_wide(op.column_scales + width + at, up_scales);
    }
    uint4 gates[ROWS] = {}, ups[ROWS] = {};
    float row_scales[ROWS] = {1.0f, 1.0f};
    auto fetch = [&](uint32_t first) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const uint32_t row = first + r;
            if (!is_in || row >= op.rows) continue;
            const bf16* from = op.gate_up + (size_t)row * 2 * width + at;
            gates[r] = *(const uint4*)from, ups[r] = *(const uint4*)(from + width);
            if (op.row_scales) row_scales[r] = op.row_scales[row];
        }
    };
    uint32_t first = row_of_cluster() * ROWS;
    fetch(first);
    // No block writes to one that has not begun.
    if (blocks > 1) cluster_arrive(), cluster_wait();
    for (uint32_t turn = 0; first < op.rows; first += next, turn ^= 1) {
        float kept[ROWS][CHUNK], largest[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float up[CHUNK];
            unpack(gates[r], kept[r]), unpack(ups[r], up);
            largest[r] = 0.0f;
#pragma unroll
            for (int i = 0; i < CHUNK; i++) {
                const float gate = kept[r][i] * (row_scales[r] * gate_scales[i]);
                kept[r][i] = __fdividef(gate, 1.0f + __expf(-gate)) * (up[i] * (row_scales[r] * up_scales[i]));
                largest[r] = fmaxf(largest[r], fabsf(kept[r][i]));
            }
        }
        fetch(first + next);
        float factor[ROWS] = {1.0f, 1.0f};
        if (sizeof(T) == sizeof(fp8)) {
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                largest[r] = largest_of_warp(largest[r]);
                if (lane == 0) of_warps[turn][r][threadIdx.x / 32] = largest[r];
            }
            __syncthreads();
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                largest[r] = largest_of_warp(lane < blockDim.x / 32 ? of_warps[turn][r][lane] : 0.0f);
            if (blocks > 1) {
                // What is read in this turn is written again in the next but one, and a barrier is between.
                if (threadIdx.x < ROWS * blocks) {
                    const uint32_t r = threadIdx.x / blocks;
                    uint32_t there;
                    asm("mapa.shared::cluster.u32 %0, %1, %2;"
                        : "=r"(there)
                        : "r"(shared_address(&of_blocks[turn][r][rank])), "r"(threadIdx.x % blocks));
                    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(r ? largest[1] : largest[0]) : "memory");
                }
                cluster_arrive(), cluster_wait();
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    largest[r] = largest_of_warp(lane < blocks ? of_blocks[turn][r][lane] : 0.0f);
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                if (first + r < op.rows) factor[r] = Stored<T>::factor(largest[r], op.out_scales, first + r);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!is_in || first + r >= op.rows) continue;
#pragma unroll
            for (int i = 0; i < CHUNK; i++) kept[r][i] *= factor[r];
            store_wide((T*)op.out + (size_t)(first + r) * width + at, kept[r]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(448, 2) gate_rows_bf16(const __grid_constant__ Gate op) { gate_rows<bf16>(op); }
extern "C" __global__ void __launch_bounds__(448, 2) gate_rows_fp8(const __grid_constant__ Gate op) { gate_rows<fp8>(op); }
extern "C" __global__ void __launch_bounds__(256, 3) gate_bf16(const __grid_constant__ Gate op) { gate<bf16>(op); }
extern "C" __global__ void __launch_bounds__(256, 3) gate_fp8(const __grid_constant__ Gate op) { gate<fp8>(op); }

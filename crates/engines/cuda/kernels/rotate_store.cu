// Scales and biases queries, keys and values, turns queries and keys to their positions, and puts keys
// and values into their pages. A warp has one head of one row.
#include "numbers.cuh"

struct RotateStore {
    const bf16* qkv;
    const float* row_scales;
    const float* column_scales;
    const float* bias;
    const float* angles;
    const uint32_t* positions;
    const uint32_t* tables;
    const uint32_t* blocks;
    bf16* queries;
    uint8_t* pool;
    uint64_t block_bytes;
    uint64_t layer_offset;  // of this layer in a block
    uint32_t table_width, heads, kv_heads, head_size;
    uint32_t neighbours;  // which components are turned together: 2i and 2i+1, or i and i+half
    float by_key_scale, by_value_scale;
};

template <class T>
__device__ __forceinline__ void rotate_store(const RotateStore& op) {
    const uint32_t row = blockIdx.y, head = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    const uint32_t table = op.tables[row], all_heads = op.heads + 2 * op.kv_heads;
    if (head >= all_heads) return;
    const uint32_t size = op.head_size, half = size / 2;
    if (table == PADDING) {
        for (uint32_t i = threadIdx.x % 32; head < op.heads && i < size; i += 32)
            store(op.queries[((size_t)row * op.heads + head) * size + i], 0.0f);
        return;
    }
    const uint32_t position = op.positions[row];
    const float row_scale = op.row_scales ? op.row_scales[row] : 1.0f;
    const bf16* from = op.qkv + (size_t)row * all_heads * size;
    const float* angles = op.angles + (size_t)position * size;
    const bool is_query = head < op.heads, is_value = head >= op.heads + op.kv_heads;
    T* page = nullptr;
    if (!is_query) {
        const size_t block = op.blocks[(size_t)table * op.table_width + position / PAGE];
        const size_t kv_head = (head - op.heads) % op.kv_heads;
        page = (T*)(op.pool + block * op.block_bytes + op.layer_offset) + kv_head * 2 * PAGE * size;
    }
    for (uint32_t pair = threadIdx.x % 32; pair < half; pair += 32) {
        const uint32_t component[2] = {op.neighbours ? 2 * pair : pair,
                                       op.neighbours ? 2 * pair + 1 : pair + half};
        float value[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t column = head * size + component[i];
            const float scale = op.column_scales ? row_scale * op.column_scales[column] : row_scale;
            value[i] = load(from[column]) * scale + (op.bias ? op.bias[column] : 0.0f);
        }
        if (!is_value) {
            const float cosine = angles[pair], sine = angles[half + pair];
            const float first = value[0] * cosine - value[1] * sine;
            value[1] = value[1] * cosine + value[0] * sine;
            value[0] = first;
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (is_query) {
                store(op.queries[((size_t)row * op.heads + head) * size + component[i]], value[i]);
            } else if (is_value) {
                store(page[PAGE * size + component[i] * PAGE + position % PAGE], value[i] * op.by_value_scale);
            } else {
                store(page[position % PAGE * size + component[i]], value[i] * op.by_key_scale);
            }
        }
    }
}

extern "C" __global__ void rotate_store_bf16(const __grid_constant__ RotateStore op) { rotate_store<bf16>(op); }
extern "C" __global__ void rotate_store_fp8(const __grid_constant__ RotateStore op) { rotate_store<fp8>(op); }

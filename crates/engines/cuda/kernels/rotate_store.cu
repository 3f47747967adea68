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
    uint32_t table_width, heads, kv_heads, head_size, rows;
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

// The same for many rows of heads of 64 or 128. A block has 32 rows, of which a thread has sixteen
// components: eight pairs, whose angles serve several heads. Values take a way through shared memory, to be
// written as runs of tokens.
constexpr int TILE_HEADS = 4, TILE_ROWS = 32;

template <class T, int SIZE>
__device__ __forceinline__ void rotate_store_rows(const RotateStore& op) {
    constexpr int THREADS = SIZE / 16, HALF = SIZE / 2;  // of a row
    __shared__ T values[SIZE][TILE_ROWS + 4];
    __shared__ uint8_t* pages[TILE_ROWS];
    __shared__ uint32_t places[TILE_ROWS];
    const uint32_t in_tile = threadIdx.x / THREADS, part = threadIdx.x % THREADS;
    const uint32_t row = blockIdx.y * TILE_ROWS + in_tile, all_heads = op.heads + 2 * op.kv_heads;
    const uint32_t first_head = blockIdx.x * TILE_HEADS;
    const bool is_row = row < op.rows;
    const uint32_t table = is_row ? op.tables[row] : PADDING;
    const bool is_used = table != PADDING;
    const uint32_t position = is_used ? op.positions[row] : 0;
    const float row_scale = is_row && op.row_scales ? op.row_scales[row] : 1.0f;
    // Where this thread's components begin: eight and eight.
    const uint32_t begin[2] = {op.neighbours ? 16 * part : 8 * part, op.neighbours ? 16 * part + 8 : HALF + 8 * part};
    uint4 words[TILE_HEADS][2] = {};
    const bf16* from = op.qkv + ((size_t)row * all_heads + first_head) * SIZE;
#pragma unroll
    for (int h = 0; h < TILE_HEADS; h++) {
        if (!is_used || first_head + h >= all_heads) continue;
#pragma unroll
        for (int i = 0; i < 2; i++) words[h][i] = *(const uint4*)(from + h * SIZE + begin[i]);
    }
    float cosines[CHUNK], sines[CHUNK];
    load_wide(op.angles + (size_t)position * SIZE + 8 * part, cosines);
    load_wide(op.angles + (size_t)position * SIZE + HALF + 8 * part, sines);
    uint8_t* page = nullptr;
    if (is_used && first_head + TILE_HEADS > op.heads) {
        const size_t block = op.blocks[(size_t)table * op.table_width + position / PAGE];
        page = op.pool + block * op.block_bytes + op.layer_offset;
    }
    if (part == 0) pages[in_tile] = page, places[in_tile] = position % PAGE;
#pragma unroll
    for (int h = 0; h < TILE_HEADS; h++) {
        const uint32_t head = first_head + h;
        if (head >= all_heads) break;
        const bool is_query = head < op.heads, is_value = head >= op.heads + op.kv_heads;
        float value[2][CHUNK];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            unpack(words[h][i], value[i]);
            const uint32_t column = head * SIZE + begin[i];
            float scales[CHUNK];
            if (op.column_scales) {
                load_wide(op.column_scales + column, scales);
#pragma unroll
                for (int e = 0; e < CHUNK; e++) value[i][e] *= row_scale * scales[e];
            } else {
#pragma unroll
                for (int e = 0; e < CHUNK; e++) value[i][e] *= row_scale;
            }
            if (op.bias && is_used) {
                load_wide(op.bias + column, scales);
#pragma unroll
                for (int e = 0; e < CHUNK; e++) value[i][e] += scales[e];
            }
        }
        if (!is_value) {
            auto turn = [](float& first, float& second, float cosine, float sine) {
                const float turned = first * cosine - second * sine;
                second = second * cosine + first * sine;
                first = turned;
            };
            if (op.neighbours) {
#pragma unroll
                for (int e = 0; e < CHUNK; e++)
                    turn(value[e / 4][e % 4 * 2], value[e / 4][e % 4 * 2 + 1], cosines[e], sines[e]);
            } else {
#pragma unroll
                for (int e = 0; e < CHUNK; e++) turn(value[0][e], value[1][e], cosines[e], sines[e]);
            }
        }
        if (is_query) {
            // Padding has zeros by now.
            bf16* to = op.queries + ((size_t)row * op.heads + head) * SIZE;
            if (is_row) store_wide(to + begin[0], value[0]), store_wide(to + begin[1], value[1]);
            continue;
        }
        const float by_scale = is_value ? op.by_value_scale : op.by_key_scale;
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int e = 0; e < CHUNK; e++) value[i][e] *= by_scale;
        const size_t of_head = (size_t)((head - op.heads) % op.kv_heads) * 2 * PAGE * SIZE;
        if (!is_value) {
            T* to = (T*)page + of_head + position % PAGE * SIZE;
            if (is_used) store_wide(to + begin[0], value[0]), store_wide(to + begin[1], value[1]);
            continue;
        }
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int e = 0; e < CHUNK; e++) store(values[begin[i] + e][in_tile], value[i][e]);
        __syncthreads();
        // A lane has a row: those of one sequence are one run of a component's tokens.
        const uint32_t lane = threadIdx.x % 32;
        T* to = (T*)pages[lane] + of_head + PAGE * SIZE + places[lane];
        if (pages[lane])
            for (uint32_t component = threadIdx.x / 32; component < SIZE; component += blockDim.x / 32)
                to[component * PAGE] = values[component][lane];
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(128) rotate_store_rows_bf16_64(const __grid_constant__ RotateStore op) { rotate_store_rows<bf16, 64>(op); }
extern "C" __global__ void __launch_bounds__(256) rotate_store_rows_bf16_128(const __grid_constant__ RotateStore op) { rotate_store_rows<bf16, 128>(op); }
extern "C" __global__ void __launch_bounds__(128) rotate_store_rows_fp8_64(const __grid_constant__ RotateStore op) { rotate_store_rows<fp8, 64>(op); }
extern "C" __global__ void __launch_bounds__(256) rotate_store_rows_fp8_128(const __grid_constant__ RotateStore op) { rotate_store_rows<fp8, 128>(op); }
extern "C" __global__ void rotate_store_bf16(const __grid_constant__ RotateStore op) { rotate_store<bf16>(op); }
extern "C" __global__ void rotate_store_fp8(const __grid_constant__ RotateStore op) { rotate_store<fp8>(op); }

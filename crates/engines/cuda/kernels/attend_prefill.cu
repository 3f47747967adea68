// Attention of several rows of a sequence, from FP8 pages: prompts, chunks of them, and drafts to be
// checked.
//
// What counts is the rate of the matrix unit. A block has up to 128 rows of queries that have one head of
// keys: all heads of that group, of as many of the sequence's rows as fit, so that a page is fetched and
// widened once for all of them. Four warps have 32 rows each and share a ring that the copy engine fills.
// Rows are the matrix unit's left side; keys and values come as they lie in the page and are widened on
// their way into its right side (see `attend_decode.cu` for which token stands where). A warp leaves out
// pages that none of its rows sees.
#include "copy_engine.cuh"

constexpr int WARPS = 4;
constexpr int TILES = 2;  // of sixteen rows, for each warp
constexpr int WARP_ROWS = 16 * TILES;
constexpr int STAGES = 4;
constexpr int AHEAD = 2;  // pages on their way

// Rows of one sequence that a block has.
struct Rows {
    uint32_t first, count;
};
struct Prefill {
    Attend attend;
    const Rows* rows;
};

template <int SIZE>
__device__ __forceinline__ void attend_prefill(const Prefill& prefill) {
    constexpr int HALF = PAGE * SIZE, BYTES = 2 * HALF;
    constexpr int STEPS = SIZE / 16, COLUMNS = SIZE / 8;
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ __align__(8) uint64_t arrived[STAGES], used[STAGES];
    const Attend& op = prefill.attend;
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    // The last rows of a prompt see most: they begin first.
    const Rows rows = prefill.rows[gridDim.x - 1 - blockIdx.x];
    const uint32_t kv_head = blockIdx.y, split = blockIdx.z, splits = gridDim.z;
    const uint32_t group = op.heads / op.kv_heads;
    const uint32_t full = shared_address(arrived), empty = shared_address(used);
    if (threadIdx.x == 0) {
#pragma unroll
        for (int i = 0; i < STAGES; i++) make_barrier(full + 8 * i, 1), make_barrier(empty + 8 * i, WARPS);
        show_barriers();
    }
    __syncthreads();

    const uint32_t* blocks = op.blocks + (size_t)op.tables[rows.first] * op.table_width;
    const uint8_t* pages = op.pool + op.layer_offset + (size_t)kv_head * BYTES;
    const uint32_t context = op.positions[rows.first + rows.count - 1] + 1;
    const Part part = part_of(context, split, splits);
    auto fetch = [&](uint32_t n) {
        const uint32_t page = part.first + n, stage = n % STAGES;
        if (threadIdx.x == 0 && page < part.end) {
            if (n >= STAGES) wait_for(empty + 8 * stage, n / STAGES % 2 ^ 1);
            fetch_page<BYTES>(shared + stage * BYTES, pages + (size_t)blocks[page] * op.block_bytes, full + 8 * stage);
        }
    };
#pragma unroll
    for (int n = 0; n < AHEAD; n++) fetch(n);

    // This thread's rows: of each tile the one at g and the one at g + 8. A row is a head of a token.
    uint32_t sees[TILES][2], most = 0, least = ~0u;
    uint4* fragments = (uint4*)(shared + STAGES * BYTES) + warp * TILES * STEPS * 32 + lane;
#pragma unroll
    for (int m = 0; m < TILES; m++) {
        const bf16* from[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint32_t index = warp * WARP_ROWS + 16 * m + 8 * h + g, token = index / group;
            const bool is_row = token < rows.count;
            const size_t row = rows.first + (is_row ? token : 0);
            sees[m][h] = is_row ? op.positions[row] + 1 : 0;
            most = max(most, sees[m][h]);
            least = min(least, sees[m][h]);
            from[h] = op.queries + (row * op.heads + kv_head * group + index % group) * SIZE + t * (SIZE / 4);
        }
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            uint32_t word[2][2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const uint2 four = *(const uint2*)(from[h] + 4 * k);
                word[h][0] = pack_f16(__uint_as_float(four.x << 16), __uint_as_float(four.x & 0xffff0000u));
                word[h][1] = pack_f16(__uint_as_float(four.y << 16), __uint_as_float(four.y & 0xffff0000u));
            }
            fragments[(m * STEPS + k) * 32] = make_uint4(word[0][0], word[1][0], word[0][1], word[1][1]);
        }
    }
    most = __reduce_max_sync(WARP, most);
    least = __reduce_min_sync(WARP, least);

    float sums[TILES][COLUMNS][4] = {}, largest[TILES][2], total[TILES][2] = {};
#pragma unroll
    for (int m = 0; m < TILES; m++) largest[m][0] = largest[m][1] = NO_SCORE;
    for (uint32_t n = 0; part.first + n < part.end; n++) {
        const uint32_t page = part.first + n, stage = n % STAGES;
        fetch(n + AHEAD);
        wait_for(full + 8 * stage, n / STAGES % 2);
        __syncwarp();
        const uint8_t* keys = shared + stage * BYTES;
        uint8_t* values = shared + stage * BYTES + HALF;
        if (context < (page + 1) * PAGE) {
            // The context ends in this page. What lies beyond was never written, and may be no number.
            for (uint32_t word = threadIdx.x; word < HALF / 4; word += WARPS * 32) {
                const uint32_t token = page * PAGE + word % (PAGE / 4) * 4;
                const uint32_t kept = context > token ? min(context - token, 4u) : 0;
                if (kept < 4) ((uint32_t*)values)[word] &= (1u << 8 * kept) - 1;
            }
            __syncthreads();
        }
        if (page * PAGE < most) {
            float score[TILES][4][4] = {};
            {
                uint32_t word[4][STEPS];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const uint4* from = (const uint4*)(keys + (g / 2 * 8 + 2 * j + g % 2) * SIZE + t * (SIZE / 4));
                    if constexpr (SIZE == 128) {
                        const bool other = g % 2;
                        const uint4 x = from[other], y = from[!other];
                        const uint4 a = other ? y : x, b = other ? x : y;
                        word[j][0] = a.x, word[j][1] = a.y, word[j][2] = a.z, word[j][3] = a.w;
                        word[j][4] = b.x, word[j][5] = b.y, word[j][6] = b.z, word[j][7] = b.w;
                    } else {
                        const uint4 a = from[0];
                        word[j][0] = a.x, word[j][1] = a.y, word[j][2] = a.z, word[j][3] = a.w;
                    }
                }
#pragma unroll
                for (int k = 0; k < STEPS; k++) {
                    uint4 query[TILES];
#pragma unroll
                    for (int m = 0; m < TILES; m++) query[m] = fragments[(m * STEPS + k) * 32];
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        const uint32_t low = widen2((uint16_t)word[j][k]), high = widen2((uint16_t)(word[j][k] >> 16));
#pragma unroll
                        for (int m = 0; m < TILES; m++)
                            multiply(score[m][j], query[m].x, query[m].y, query[m].z, query[m].w, low, high);
                    }
                }
            }
            uint32_t weight[TILES][2][4];
            bool grown = false;
            float shrink[TILES][2];
#pragma unroll
            for (int m = 0; m < TILES; m++) {
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    float best = largest[m][h];
#pragma unroll
                    for (int j = 0; j < 4; j++) {
#pragma unroll
                        for (int e = 0; e < 2; e++) {
                            float& value = score[m][j][2 * h + e];
                            value *= op.score_scale;
                            if (least < (page + 1) * PAGE && page * PAGE + 8 * t + 2 * j + e >= sees[m][h]) value = NO_SCORE;
                            best = fmaxf(best, value);
                        }
                    }
                    best = fmaxf(best, __shfl_xor_sync(WARP, best, 1));
                    best = fmaxf(best, __shfl_xor_sync(WARP, best, 2));
                    grown |= best > largest[m][h];
                    shrink[m][h] = exp2f(largest[m][h] - best);
                    largest[m][h] = best;
                    float sum = 0.0f;
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        const float first = exp2f(score[m][j][2 * h] - best), second = exp2f(score[m][j][2 * h + 1] - best);
                        sum += first + second;
                        weight[m][j / 2][j % 2 * 2 + h] = pack_f16(first, second);
                    }
                    total[m][h] = total[m][h] * shrink[m][h] + sum;
                }
            }
            // After a few pages the largest score hardly ever grows.
            if (__any_sync(WARP, grown)) {
#pragma unroll
                for (int m = 0; m < TILES; m++)
#pragma unroll
                    for (int c = 0; c < COLUMNS; c++)
#pragma unroll
                        for (int e = 0; e < 4; e++) sums[m][c][e] *= shrink[m][e / 2];
            }
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                const uint2 eight = *(const uint2*)(values + (8 * c + g) * PAGE + 8 * t);
                const uint32_t word[2] = {eight.x, eight.y};
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const uint32_t low = widen2((uint16_t)word[i]), high = widen2((uint16_t)(word[i] >> 16));
#pragma unroll
                    for (int m = 0; m < TILES; m++)
                        multiply(sums[m][c], weight[m][i][0], weight[m][i][1], weight[m][i][2], weight[m][i][3], low, high);
                }
            }
        }
        __syncwarp();
        if (lane == 0) arrive(empty + 8 * stage);
    }

#pragma unroll
    for (int m = 0; m < TILES; m++) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint32_t index = warp * WARP_ROWS + 16 * m + 8 * h + g, token = index / group;
            float all = total[m][h];
            all += __shfl_xor_sync(WARP, all, 1);
            all += __shfl_xor_sync(WARP, all, 2);
            if (token >= rows.count) continue;
            const uint32_t row = rows.first + token - op.first_row, head = kv_head * group + index % group;
            const size_t place = ((size_t)row * splits + split) * op.heads + head;
            // A part that a row sees nothing of has only scores that are none.
            const bool none = largest[m][h] == NO_SCORE;
            if (t == 0) op.stats[place] = make_float2(largest[m][h], none ? 0.0f : all);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
                *(float2*)(op.sums + place * SIZE + 8 * c + 2 * t) =
                    none ? make_float2(0.0f, 0.0f) : make_float2(sums[m][c][2 * h], sums[m][c][2 * h + 1]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(128, 2) attend_prefill_64(const __grid_constant__ Prefill op) { attend_prefill<64>(op); }
extern "C" __global__ void __launch_bounds__(128, 2) attend_prefill_128(const __grid_constant__ Prefill op) { attend_prefill<128>(op); }

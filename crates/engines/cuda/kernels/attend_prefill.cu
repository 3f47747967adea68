// Attention of several rows of a sequence, from FP8 pages: prompts, chunks of them, and drafts to be
// checked.
//
// What counts is the rate of the matrix unit. A block has up to 128 rows of queries that have one head of
// keys: all heads of that group, of as many of the sequence's rows as fit, so that a page is fetched and
// widened once for all of them. One warpgroup keeps the copy engine busy and widens what has arrived, from
// FP8 to F16, into the pattern that the matrix unit reads. Two others have 64 rows each: scores of the next
// tokens and sums of the last ones are computed while weights are made of the scores between them.
#include "copy_engine.cuh"
#include "warpgroup.cuh"

constexpr int WARPGROUP = 128;
constexpr int READERS = 2;  // warpgroups with rows
constexpr int READER_ROWS = 64;
constexpr int TILE_PAGES = 2, TILE = TILE_PAGES * PAGE;
constexpr int FETCHED = 3;  // tiles of FP8 in shared memory
constexpr int WIDENED = 4;  // tiles of F16
constexpr int BLOCKS_OF_8 = TILE / 8, TILE_STEPS = TILE / 16;

// Rows of one sequence that a block has.
struct Rows {
    uint32_t first, count;
};
struct Prefill {
    Attend attend;
    const Rows* rows;
    // Where contexts have one part: rows of BF16 that are divided already, [row][head][component]. None: parts.
    bf16* out;
    float value_scale;
};

// Addresses in shared memory, and the tiles that a block reads.
struct Tiles {
    uint32_t fetched, widened, barriers;
    uint32_t first_page, end_page, count;
    // A tile of FP8 has arrived; one of F16 may be read; all have read it.
    __device__ uint32_t arrived(uint32_t n) const { return barriers + 8 * (n % FETCHED); }
    __device__ uint32_t ready(uint32_t n) const { return barriers + 8 * (FETCHED + n % WIDENED); }
    __device__ uint32_t used(uint32_t n) const { return barriers + 8 * (FETCHED + WIDENED + n % WIDENED); }
};

__device__ __forceinline__ uint4 read_16(uint32_t address) {
    uint4 words;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w) : "r"(address));
    return words;
}
// Eight numbers of FP8 become a chunk of halves.
__device__ __forceinline__ void widen_8(uint32_t to, uint32_t low, uint32_t high) {
    const uint32_t a = widen2((uint16_t)low), b = widen2((uint16_t)(low >> 16));
    const uint32_t c = widen2((uint16_t)high), d = widen2((uint16_t)(high >> 16));
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
// The bytes of a word that are of the first `kept` tokens.
__device__ __forceinline__ uint32_t cut(uint32_t word, int kept) {
    return kept >= 4 ? word : kept <= 0 ? 0 : word & ((1u << 8 * kept) - 1);
}

// Fetches and widens all tiles. Which lane has which 16 bytes is chosen so that the lanes that are served
// at once are in different banks, both where they read and where they write.
template <int SIZE>
__device__ __forceinline__ void widen_tiles(const Attend& op, const Tiles& tiles, const uint32_t* blocks,
                                            const uint8_t* pages, uint32_t context) {
    constexpr int HALF = PAGE * SIZE, BYTES = 2 * HALF;
    constexpr int COLUMNS = SIZE / ROW_HALVES;  // of the tile's keys
    constexpr int KEY_BYTES = TILE * SIZE * 2, TILE_BYTES = 2 * KEY_BYTES;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    auto fetch = [&](uint32_t n) {
        if (warp != 0 || n >= tiles.count) return;
        const uint32_t page = tiles.first_page + n * TILE_PAGES;
        const uint32_t count = min(tiles.end_page - page, TILE_PAGES);
        if (lane == 0) expect_bytes(tiles.arrived(n), count * BYTES);
        __syncwarp();
        if (lane < count)
            copy_bytes(tiles.fetched + (n % FETCHED * TILE_PAGES + lane) * BYTES,
                       pages + (size_t)blocks[page + lane] * op.block_bytes, BYTES, tiles.arrived(n));
    };
#pragma unroll
    for (int n = 0; n < FETCHED; n++) fetch(n);
    // Of keys: a token's 16 components. Of values: a component's 16 tokens.
    const uint32_t key_part = lane % (SIZE / 16), quarter = lane / 8, pair = lane % 8 / 2;
    const uint32_t component = quarter / 2 * 8 + (quarter % 2 ? pair + 2 : pair < 2 ? pair : pair + 4);
    for (uint32_t n = 0; n < tiles.count; n++) {
        const uint32_t from = tiles.fetched + n % FETCHED * TILE_PAGES * BYTES;
        const uint32_t keys = tiles.widened + n % WIDENED * TILE_BYTES, values = keys + KEY_BYTES;
        wait_for(tiles.arrived(n), n / FETCHED % 2);
        if (n >= WIDENED) wait_for(tiles.used(n), n / WIDENED % 2 ^ 1);
        // All is read before any of it is written, so that what is read is waited for once.
        uint4 read[TILE_PAGES][2][SIZE / 64];
#pragma unroll
        for (int p = 0; p < TILE_PAGES; p++) {
            const bool is_there = tiles.first_page + n * TILE_PAGES + p < tiles.end_page;
#pragma unroll
            for (int i = 0; i < SIZE / 64; i++) {
                const uint32_t token = (i * WARPGROUP + threadIdx.x) / (SIZE / 16), row = (i * 4 + warp) * 16 + component;
                const uint32_t key = p * BYTES + token * SIZE + key_part * 16, value = p * BYTES + HALF + row * PAGE + lane % 2 * 16;
                read[p][0][i] = is_there ? read_16(from + key) : make_uint4(0, 0, 0, 0);
                read[p][1][i] = is_there ? read_16(from + value) : make_uint4(0, 0, 0, 0);
            }
        }
#pragma unroll
        for (int p = 0; p < TILE_PAGES; p++) {
            const uint32_t page = tiles.first_page + n * TILE_PAGES + p;
            const int kept = page < tiles.end_page ? (int)(context - page * PAGE) : 0;  // tokens that were written
#pragma unroll
            for (int i = 0; i < SIZE / 64; i++) {
                const uint32_t token = (i * WARPGROUP + threadIdx.x) / (SIZE / 16), row = p * PAGE + token;
                const uint32_t chunk = key_part * 2 % 8;
                const uint32_t column = keys + key_part * 2 / 8 * TILE * ROW_BYTES;
                const uint4& words = read[p][0][i];
                const bool swapped = COLUMNS > 1 && key_part >= 4;
                widen_8(column + place(row, chunk + swapped), swapped ? words.z : words.x, swapped ? words.w : words.y);
                widen_8(column + place(row, chunk + !swapped), swapped ? words.x : words.z, swapped ? words.y : words.w);
            }
#pragma unroll
            for (int i = 0; i < SIZE / 64; i++) {
                const uint32_t row = (i * 4 + warp) * 16 + component, half = lane % 2;
                uint4 words = read[p][1][i];
                if (kept < PAGE) {
                    // What lies beyond the context was never written, and may be no number.
                    const int left = kept - (int)half * 16;
                    words = make_uint4(cut(words.x, left), cut(words.y, left - 4), cut(words.z, left - 8), cut(words.w, left - 12));
                }
                const uint32_t chunk = p * 4 + half * 2;
                widen_8(values + place(row, chunk), words.x, words.y);
                widen_8(values + place(row, chunk + 1), words.z, words.w);
            }
        }
        show_to_unit();
        __syncwarp();
        if (lane == 0) arrive(tiles.ready(n));
        // All have read what the copy engine writes next.
        asm volatile("bar.sync 1, %0;" ::"n"(WARPGROUP) : "memory");
        fetch(n + FETCHED);
    }
}

__device__ __forceinline__ float power_of_two(float exponent) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
    return power;
}

// A reader's rows: this thread has the one at g and the one at g + 8 of its warp's sixteen.
template <int SIZE>
struct Reader {
    static constexpr int STEPS = SIZE / 16, COLUMNS = SIZE / 8;
    static constexpr int KEY_BYTES = TILE * SIZE * 2, TILE_BYTES = 2 * KEY_BYTES;
    uint32_t query[STEPS][4];
    uint32_t sees[2];
    uint32_t least;  // that any row of the warp sees
    float sums[COLUMNS][4], largest[2], total[2];
    float score[BLOCKS_OF_8][4];
    uint32_t weight[TILE_STEPS][4];

    // A row is a head of a token.
    __device__ __forceinline__ void load(const Attend& op, const Rows& rows, uint32_t first, uint32_t kv_head, uint32_t end) {
        const uint32_t g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, group = op.heads / op.kv_heads;
        const bf16* from[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint32_t index = first + 8 * h + g, token = index / group;
            const bool is_row = token < rows.count;
            const size_t row = rows.first + (is_row ? token : 0);
            sees[h] = is_row ? min(op.positions[row] + 1, end) : 0;
            from[h] = op.queries + (row * op.heads + kv_head * group + index % group) * SIZE + 2 * t;
            largest[h] = NO_SCORE, total[h] = 0.0f;
        }
        least = __reduce_min_sync(WARP, min(sees[0], sees[1]));
#pragma unroll
        for (int k = 0; k < STEPS; k++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t two = *(const uint32_t*)(from[i % 2] + 16 * k + 8 * (i / 2));
                query[k][i] = pack_f16(__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000u));
            }
    }

    __device__ __forceinline__ void begin_scores(uint32_t tile) {
        uint64_t column = column_at(tile);
        hold(score);
        begin_products();
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            product(score, query[k], column + k / 4 * (TILE * ROW_BYTES >> 4) + k % 4 * NEXT_STEP, k > 0);
        end_products();
    }
    __device__ __forceinline__ void begin_sums(uint32_t tile, bool added) {
        uint64_t column = column_at(tile + KEY_BYTES);
        hold(sums);
        begin_products();
#pragma unroll
        for (int k = 0; k < TILE_STEPS; k++) product(sums, weight[k], column + k * NEXT_STEP, added || k > 0);
        end_products();
    }

    // Scores become weights, of which none is above 1. Says by what earlier sums shrink, and whether they do.
    __device__ __forceinline__ bool weigh(uint32_t first_token, float scale, float (&shrink)[2]) {
        hold(score);
        if (least < first_token + TILE) {
            const uint32_t token = first_token + threadIdx.x % 4 * 2;
#pragma unroll
            for (int j = 0; j < BLOCKS_OF_8; j++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (token + 8 * j + e % 2 >= sees[e / 2]) score[j][e] = NO_SCORE;
        }
        bool grown = false;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float best = largest[h];
#pragma unroll
            for (int j = 0; j < BLOCKS_OF_8; j++) best = fmaxf(best, fmaxf(score[j][2 * h], score[j][2 * h + 1]));
            best = fmaxf(best, __shfl_xor_sync(WARP, best, 1));
            best = fmaxf(best, __shfl_xor_sync(WARP, best, 2));
            grown |= best > largest[h];
            shrink[h] = power_of_two((largest[h] - best) * scale);
            largest[h] = best;
            const float base = best == NO_SCORE ? 0.0f : best * scale;
            float sum = 0.0f;
#pragma unroll
            for (int j = 0; j < BLOCKS_OF_8; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    float& value = score[j][2 * h + e];
                    value = power_of_two(fmaf(value, scale, -base));
                    sum += value;
                }
            total[h] = total[h] * shrink[h] + sum;
        }
        return __any_sync(WARP, grown);
    }
    __device__ __forceinline__ void pack() {
#pragma unroll
        for (int k = 0; k < TILE_STEPS; k++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int block = 2 * k + i / 2, first = i % 2 * 2;
                weight[k][i] = pack_f16(score[block][first], score[block][first + 1]);
            }
    }

    __device__ __forceinline__ void read(const Tiles& tiles, float scale) {
        const uint32_t lane = threadIdx.x % 32;
        float shrink[2];
        auto tile = [&](uint32_t n) { return tiles.widened + n % WIDENED * TILE_BYTES; };
        wait_for(tiles.ready(0), 0);
        begin_scores(tile(0));
        products_done<0>();
        weigh(tiles.first_page * PAGE, scale, shrink);
        pack();
        for (uint32_t n = 1; n < tiles.count; n++) {
            wait_for(tiles.ready(n), n / WIDENED % 2);
            begin_scores(tile(n));
            begin_sums(tile(n - 1), n > 1);
            products_done<1>();
            const bool grown = weigh(tiles.first_page * PAGE + n * TILE, scale, shrink);
            products_done<0>();
            hold(sums);
            if (lane == 0) arrive(tiles.used(n - 1));
            // After a few tiles the largest score hardly ever grows.
            if (grown) {
#pragma unroll
                for (int c = 0; c < COLUMNS; c++)
#pragma unroll
                    for (int e = 0; e < 4; e++) sums[c][e] *= shrink[e / 2];
            }
            pack();
        }
        begin_sums(tile(tiles.count - 1), tiles.count > 1);
        products_done<0>();
        hold(sums);
    }

    // The sum of weights of each row.
    __device__ __forceinline__ void add_up() {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            total[h] += __shfl_xor_sync(WARP, total[h], 1);
            total[h] += __shfl_xor_sync(WARP, total[h], 2);
        }
    }

    // Results, if there is one part.
    __device__ __forceinline__ void store_whole(const Prefill& op, const Rows& rows, uint32_t first, uint32_t kv_head) const {
        const uint32_t g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, group = op.attend.heads / op.attend.kv_heads;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint32_t index = first + 8 * h + g, token = index / group;
            const bool is_row = token < rows.count;
            const uint32_t row = rows.first + (is_row ? token : 0) - op.attend.first_row, head = kv_head * group + index % group;
            bf16* to = op.out + ((size_t)row * op.attend.heads + head) * SIZE;
            const float by_total = total[h] > 0.0f ? op.value_scale / total[h] : 0.0f;
            // Neighbours change halves, so that each has four components in a row.
            const bool odd = t % 2;
#pragma unroll
            for (int c = 0; c < COLUMNS; c += 2) {
                const uint32_t one = pack_bf16(sums[c][2 * h] * by_total, sums[c][2 * h + 1] * by_total);
                const uint32_t other = pack_bf16(sums[c + 1][2 * h] * by_total, sums[c + 1][2 * h + 1] * by_total);
                const uint32_t theirs = __shfl_xor_sync(WARP, odd ? one : other, 1);
                const uint2 four = odd ? make_uint2(theirs, other) : make_uint2(one, theirs);
                if (is_row) *(uint2*)(to + 8 * (c + odd) + t / 2 * 4) = four;
            }
        }
    }

    __device__ __forceinline__ void store(const Attend& op, const Rows& rows, uint32_t first, uint32_t kv_head,
                                          uint32_t split, uint32_t splits) const {
        const uint32_t g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, group = op.heads / op.kv_heads;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint32_t index = first + 8 * h + g, token = index / group;
            if (token >= rows.count) continue;
            const uint32_t row = rows.first + token - op.first_row, head = kv_head * group + index % group;
            const size_t at = ((size_t)row * splits + split) * op.heads + head;
            // A part that a row sees nothing of has only scores that are none.
            const bool none = largest[h] == NO_SCORE;
            if (t == 0) op.stats[at] = make_float2(none ? NO_SCORE : largest[h] * op.score_scale, none ? 0.0f : total[h]);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
                *(float2*)(op.sums + at * SIZE + 8 * c + 2 * t) =
                    none ? make_float2(0.0f, 0.0f) : make_float2(sums[c][2 * h], sums[c][2 * h + 1]);
        }
    }
};

template <int SIZE>
__device__ __forceinline__ void attend_prefill(const Prefill& prefill) {
    extern __shared__ __align__(1024) uint8_t shared[];
    const Attend& op = prefill.attend;
    // The last rows of a prompt see most: they begin first.
    const Rows rows = prefill.rows[gridDim.x - 1 - blockIdx.x];
    const uint32_t kv_head = blockIdx.y, split = blockIdx.z, splits = gridDim.z;
    const uint32_t context = op.positions[rows.first + rows.count - 1] + 1;
    const Part part = part_of(context, split, splits);
    Tiles tiles;
    tiles.widened = (shared_address(shared) + 1023) / 1024 * 1024;
    tiles.fetched = tiles.widened + WIDENED * TILE * SIZE * 4;
    tiles.barriers = tiles.fetched + FETCHED * TILE * SIZE * 2;
    tiles.first_page = part.first, tiles.end_page = part.end;
    tiles.count = (part.end - part.first + TILE_PAGES - 1) / TILE_PAGES;
    if (threadIdx.x == 0) {
        for (int n = 0; n < FETCHED; n++) make_barrier(tiles.arrived(n), 1);
        for (int n = 0; n < WIDENED; n++) make_barrier(tiles.ready(n), WARPGROUP / 32), make_barrier(tiles.used(n), READERS * WARPGROUP / 32);
        show_barriers();
    }
    __syncthreads();
    if (threadIdx.x < WARPGROUP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 88;");
        const uint32_t* blocks = op.blocks + (size_t)op.tables[rows.first] * op.table_width;
        const uint8_t* pages = op.pool + op.layer_offset + (size_t)kv_head * 2 * PAGE * SIZE;
        widen_tiles<SIZE>(op, tiles, blocks, pages, context);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 208;");
        const uint32_t first = (threadIdx.x / WARPGROUP - 1) * READER_ROWS + threadIdx.x % WARPGROUP / 32 * 16;
        Reader<SIZE> reader;
        reader.load(op, rows, first, kv_head, part.end * PAGE);
        if (tiles.count) reader.read(tiles, op.score_scale);
        reader.add_up();
        if (prefill.out)
            reader.store_whole(prefill, rows, first, kv_head);
        else
            reader.store(op, rows, first, kv_head, split, splits);
    }
}

extern "C" __global__ void __launch_bounds__(384, 1) attend_prefill_64(const __grid_constant__ Prefill op) { attend_prefill<64>(op); }
extern "C" __global__ void __launch_bounds__(384, 1) attend_prefill_128(const __grid_constant__ Prefill op) { attend_prefill<128>(op); }

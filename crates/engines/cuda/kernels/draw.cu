// A token of each row: the likeliest, or one that is drawn.
//
// Weights are whole numbers: a share of the likeliest's, in steps so small that all together stay below
// 2^64. Sums of them are exact in any order, so a row gets the same token however threads are scheduled, and
// what is summed twice is equal: each search below ends where the sums say that it does.
//
// A row without a cut is read twice, with one mostly too: the tokens that may be left are collected in
// shared memory by a bound from the first reading, and sorted. Where they are too many (flat distributions,
// equal logits), searches go over the whole row: by the distance from the likeliest, then by the logits'
// bits.
#include "numbers.cuh"

constexpr uint32_t FORBIDDEN = 8;

// As `src/ops/draw.rs` has it: with a scale of 0, the likeliest.
struct Row {
    double share, scale, min_p, top_p;
    uint32_t top_k, is_drawn, forbidden[FORBIDDEN];
};

struct Draw {
    float* logits;
    const Row* rows;
    uint32_t* tokens;
    // What the likeliest weighs.
    double unit;
    uint32_t vocabulary;
};

constexpr uint32_t THREADS = 1024;
// Tokens that a thread reads at once, and a warp.
constexpr uint32_t QUAD = 4;
constexpr uint32_t OF_WARP = 32 * QUAD;
// Tokens that are collected at most.
constexpr uint32_t ROOM = 4096;
// Without `top_k`, so many threads have a best that is not below the bound, and some 2,100 tokens are not.
constexpr uint32_t USUAL_RANK = 896;
constexpr uint32_t BINS = 2048;

// Amounts of tokens, the likelier ones in higher bins.
struct Bins {
    uint32_t low[BINS], high[BINS];

    __device__ __forceinline__ void clear() {
        for (uint32_t bin = threadIdx.x; bin < BINS; bin += THREADS) low[bin] = high[bin] = 0;
    }
    __device__ __forceinline__ void add(uint32_t bin, uint64_t amount) {
        const uint32_t part = (uint32_t)amount, carry = atomicAdd(&low[bin], part) > ~part;
        atomicAdd(&high[bin], (uint32_t)(amount >> 32) + carry);
    }
    __device__ __forceinline__ uint64_t operator[](uint32_t bin) const {
        return (uint64_t)high[bin] << 32 | low[bin];
    }
};

// What a row is searched in: the collected tokens, or all by their distance from the likeliest, and of one
// distance by some bits of their logits.
union Shared {
    uint64_t list[ROOM];
    struct {
        Bins by_distance, by_bits;
    };
};

// Numbers in the order of logits, zero below all.
__device__ __forceinline__ uint32_t key_of(float logit) {
    const uint32_t bits = __float_as_uint(logit);
    return bits ^ ((int32_t)bits < 0 ? 0xffffffffu : 0x80000000u);
}
__device__ __forceinline__ float logit_of(uint32_t key) {
    return __uint_as_float(key ^ ((int32_t)key < 0 ? 0x80000000u : 0xffffffffu));
}

// Calls `visit` with quads of the row from `first` to `end`, and what logits they have: beyond the end, those
// of tokens that never come. Several are on their way at once.
template <int AT_ONCE, class Visit>
__device__ __forceinline__ void for_quads(const float* row, uint32_t vocabulary, uint32_t first, uint32_t end,
                                          uint32_t step, Visit visit) {
    // Rows of another length are not aligned.
    const bool wide = vocabulary % QUAD == 0;
    for (uint32_t from = first; from < end; from += AT_ONCE * step) {
        float logits[AT_ONCE][QUAD];
        if (wide) {
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                const uint32_t at = from + i * step;
                float4 four = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
                if (at < end) four = *(const float4*)(row + at);
                logits[i][0] = four.x, logits[i][1] = four.y, logits[i][2] = four.z, logits[i][3] = four.w;
            }
        } else {
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
#pragma unroll
                for (uint32_t j = 0; j < QUAD; j++) {
                    const uint32_t at = from + i * step + j;
                    logits[i][j] = at < end ? row[at] : -INFINITY;
                }
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) visit(from + i * step, logits[i]);
    }
}
// All quads of the row, by all threads.
template <int AT_ONCE, class Visit>
__device__ __forceinline__ void for_all_quads(const float* row, uint32_t vocabulary, Visit visit) {
    for_quads<AT_ONCE>(row, vocabulary, threadIdx.x * QUAD, vocabulary, THREADS * QUAD, visit);
}

struct Weights {
    double largest;
    // From differences of logits to powers of two.
    double scale;
    double min_p, unit;

    __device__ __forceinline__ uint64_t operator()(float logit) const {
        // Less is no weight: half a step is 2^-47 at least.
        const double power = fmax(((double)logit - largest) * scale, -64.0);
        // Behind so large a number there is room for whole ones alone.
        constexpr double WHOLE = 6755399441055744.0;
        const double rounded = power + WHOLE;
        const double rest = power - (rounded - WHOLE);
        // 2^rest from -1/2 to 1/2: a polynomial through Chebyshev's nodes, off by 4e-14 at most, and 1 at 0.
        double weight = 1.0203121063391729e-07;
        weight = fma(weight, rest, 1.3255224878668817e-06);
        weight = fma(weight, rest, 1.525268684626772e-05);
        weight = fma(weight, rest, 0.00015403455852453838);
        weight = fma(weight, rest, 0.0013333558179043112);
        weight = fma(weight, rest, 0.009618129159402558);
        weight = fma(weight, rest, 0.055504108664760424);
        weight = fma(weight, rest, 0.2402265069581299);
        weight = fma(weight, rest, 0.6931471805599453);
        weight = fma(weight, rest, 1.0);
        const int whole = __double2loint(rounded);
        weight = __hiloint2double(__double2hiint(weight) + whole * (1 << 20), __double2loint(weight));
        const long long steps = __double_as_longlong(fma(weight, unit, WHOLE)) - __double_as_longlong(WHOLE);
        return weight < min_p ? 0 : steps;
    }
};
constexpr double LOG2_E = 1.4426950408889634;

struct Scan {
    uint64_t before, all;
};
__device__ __forceinline__ uint64_t scan_warp(uint64_t sum) {
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const uint64_t other = __shfl_up_sync(WARP, (unsigned long long)sum, step);
        if (threadIdx.x % 32 >= step) sum += other;
    }
    return sum;
}
// Sums over the threads before, and over all.
__device__ __forceinline__ Scan scan(uint64_t value) {
    __shared__ uint64_t of_warps[32];
    const uint64_t sum = scan_warp(value);
    __syncthreads();
    if (threadIdx.x % 32 == 31) of_warps[threadIdx.x / 32] = sum;
    __syncthreads();
    const uint64_t warp = of_warps[threadIdx.x % 32], warps = scan_warp(warp);
    const uint64_t before = __shfl_sync(WARP, (unsigned long long)(warps - warp), threadIdx.x / 32);
    return {before + sum - value, __shfl_sync(WARP, (unsigned long long)warps, 31)};
}

struct Found {
    uint64_t before;
    uint32_t place;
};
// Where amounts in the order of threads reach `goal`, which is from 1 to their sum: `search` is called by
// the thread whose amount does it, with what is before, and what it returns comes to all.
template <class Search>
__device__ __forceinline__ Found find(Scan scan, uint64_t value, uint64_t goal, Search search) {
    __shared__ Found found;
    __syncthreads();
    if (scan.before < goal && goal <= scan.before + value) found = search(scan.before);
    __syncthreads();
    return found;
}

// The first token, in their order, where amounts reach a goal, which depends on their sum: a warp's share of
// the row first, then a thread's part of that.
template <class Amount, class Goal>
__device__ __forceinline__ uint32_t find_token(const float* row, uint32_t vocabulary, Amount amount,
                                               Goal goal_of) {
    const uint32_t share = (vocabulary + THREADS * QUAD - 1) / (THREADS * QUAD) * OF_WARP;
    const uint32_t first = threadIdx.x / 32 * share, end = min(first + share, vocabulary);
    uint64_t sum = 0;
    for_quads<2>(row, vocabulary, first + threadIdx.x % 32 * QUAD, end, OF_WARP,
                 [&](uint32_t, const float* logits) {
#pragma unroll
                     for (uint32_t i = 0; i < QUAD; i++) sum += amount(logits[i]);
                 });
    // In the thread that is the warp's last, where the sum of its lanes is.
    sum = scan_warp(sum);
    sum = threadIdx.x % 32 == 31 ? sum : 0;
    const Scan sums = scan(sum);
    const uint64_t goal = goal_of(sums.all);
    const Found warp = find(sums, sum, goal, [&](uint64_t before) { return Found{before, first}; });
    const uint32_t part = (share + THREADS - 1) / THREADS;
    const uint32_t from = min(warp.place + threadIdx.x * part, vocabulary);
    const uint32_t to = min(min(from + part, warp.place + share), vocabulary);
    const uint64_t left = goal - warp.before;
    sum = 0;
    for (uint32_t token = from; token < to; token++) sum += amount(row[token]);
    const Found found = find(scan(sum), sum, left, [&](uint64_t before) {
        uint32_t token = from;
        for (; token + 1 < to; token++) {
            before += amount(row[token]);
            if (before >= left) break;
        }
        return Found{before, token};
    });
    return found.place;
}

// The bin where amounts from the highest down reach `goal`, and what is before it.
__device__ __forceinline__ Found find_bin(const Bins& bins, uint64_t goal) {
    // A thread has two, the first thread the highest.
    const uint32_t high = BINS - 1 - 2 * threadIdx.x;
    const uint64_t first = bins[high], both = first + bins[high - 1];
    return find(scan(both), both, goal, [&](uint64_t before) {
        return before + first >= goal ? Found{before, high} : Found{before + first, high - 1};
    });
}

struct Distance {
    float largest, factor;

    __device__ __forceinline__ uint32_t operator()(float logit) const {
        return BINS - 1 - (uint32_t)fminf((largest - logit) * factor, BINS - 1);
    }
};

// Fills the bins by distance.
template <class Amount>
__device__ __forceinline__ void fill(const float* row, uint32_t vocabulary, Shared& shared, Distance distance,
                                     Amount amount) {
    __syncthreads();
    shared.by_distance.clear();
    __syncthreads();
    for_all_quads<1>(row, vocabulary, [&](uint32_t, const float* logits) {
#pragma unroll
        for (uint32_t i = 0; i < QUAD; i++) {
            const uint64_t value = amount(logits[i]);
            if (value) shared.by_distance.add(distance(logits[i]), value);
        }
    });
    __syncthreads();
}

// The likeliest logit (as a key) with which amounts, from the likeliest down, reach `goal`, and what is
// before the first of its tokens. The bins by distance are of the same amounts.
template <class Amount>
__device__ __forceinline__ Found descend(const float* row, uint32_t vocabulary, uint64_t goal, Shared& shared,
                                         Distance distance, Amount amount) {
    const Found at = find_bin(shared.by_distance, goal);
    uint32_t prefix = 0;
    uint64_t above = at.before;
    for (int level = 0; level < 3; level++) {
        // 11 bits, 11, and 10.
        const int shift = level == 0 ? 21 : level == 1 ? 10 : 0, bits = level == 2 ? 10 : 11;
        __syncthreads();
        shared.by_bits.clear();
        __syncthreads();
        for_all_quads<2>(row, vocabulary, [&](uint32_t, const float* logits) {
#pragma unroll
            for (uint32_t i = 0; i < QUAD; i++) {
                const uint32_t key = key_of(logits[i]);
                if (distance(logits[i]) != at.place || (level > 0 && key >> shift >> bits != prefix)) continue;
                const uint64_t value = amount(logits[i]);
                if (value) shared.by_bits.add(key >> shift & ((1u << bits) - 1), value);
            }
        });
        __syncthreads();
        const Found found = find_bin(shared.by_bits, goal - above);
        above += found.before;
        prefix = prefix << bits | found.place;
    }
    return {above, prefix};
}

__device__ __forceinline__ uint64_t divide_up(uint64_t one, uint64_t other) { return (one + other - 1) / other; }

// What the weights of tokens must reach to leave `top_p` of them.
__device__ __forceinline__ uint64_t enough(double top_p, uint64_t total) {
    const double goal = ceil(top_p * (double)total);
    return goal < 1.0 ? 1 : goal < (double)total ? (uint64_t)goal : total;
}
// What they must reach to be behind `share` of them.
__device__ __forceinline__ uint64_t behind(double share, uint64_t total) {
    const double goal = floor(share * (double)total) + 1.0;
    return goal < (double)total ? (uint64_t)goal : total;
}

// Sorts downwards; `count` is a power of two.
__device__ __forceinline__ void sort(uint64_t* list, uint32_t count) {
    for (uint32_t size = 2; size <= count; size *= 2)
        for (uint32_t step = size / 2; step; step /= 2) {
            __syncthreads();
            for (uint32_t pair = threadIdx.x; pair < count / 2; pair += THREADS) {
                const uint32_t one = 2 * pair - (pair & (step - 1)), other = one + step;
                const uint64_t a = list[one], b = list[other];
                if ((a < b) == ((one & size) == 0)) list[one] = b, list[other] = a;
            }
        }
    __syncthreads();
}

// Draws from the tokens that are likely enough to be left, likeliest first and equals in order; none where
// they have no room. `best` is the thread's own key.
__device__ __forceinline__ uint32_t draw_of_few(const float* row, const Draw& op, const Row& how, uint32_t best,
                                                Shared& shared, Weights weight) {
    __shared__ uint32_t count;
    const bool by_weight = how.top_k == 0;
    const uint32_t rank = by_weight ? USUAL_RANK : how.top_k;
    // So many tokens are no less likely than the best of so many threads.
    float bound = -INFINITY;
    if (op.vocabulary > ROOM) {
        if (rank > THREADS) return PADDING;
        shared.list[threadIdx.x] = best;
        sort(shared.list, THREADS);
        bound = logit_of((uint32_t)shared.list[rank - 1]);
    }
    __syncthreads();
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    uint64_t sum = 0;
    for_all_quads<1>(row, op.vocabulary, [&](uint32_t at, const float* logits) {
        if (by_weight) {
#pragma unroll
            for (uint32_t i = 0; i < QUAD; i++) sum += weight(logits[i]);
        }
        if (!(fmaxf(fmaxf(logits[0], logits[1]), fmaxf(logits[2], logits[3])) >= bound)) return;
#pragma unroll
        for (uint32_t i = 0; i < QUAD; i++) {
            if (!(logits[i] >= bound) || at + i >= op.vocabulary) continue;
            const uint32_t slot = atomicAdd(&count, 1);
            if (slot < ROOM) shared.list[slot] = (uint64_t)key_of(logits[i]) << 32 | ~(at + i);
        }
    });
    __syncthreads();
    if (count > ROOM) return PADDING;
    uint32_t room = 2;
    while (room < count) room *= 2;
    for (uint32_t slot = count + threadIdx.x; slot < room; slot += THREADS) shared.list[slot] = 0;
    sort(shared.list, room);
    const uint32_t left = by_weight ? count : min(count, how.top_k);
    constexpr uint32_t OF_THREAD = ROOM / THREADS;
    uint64_t weights[OF_THREAD], own = 0;
#pragma unroll
    for (uint32_t i = 0; i < OF_THREAD; i++) {
        const uint32_t at = threadIdx.x * OF_THREAD + i;
        weights[i] = at < left ? weight(logit_of((uint32_t)(shared.list[at] >> 32))) : 0;
        own += weights[i];
    }
    const Scan sums = scan(own);
    const auto search = [&](uint64_t goal) {
        return find(sums, own, goal, [&](uint64_t before) {
            uint32_t i = 0;
            before += weights[0];
#pragma unroll
            for (uint32_t next = 1; next < OF_THREAD; next++)
                if (before < goal) before += weights[next], i = next;
            // With its own weight: what is left if it is the last.
            return Found{before, threadIdx.x * OF_THREAD + i};
        });
    };
    uint64_t total = sums.all;
    if (how.top_p < 1.0) {
        const uint64_t goal = enough(how.top_p, by_weight ? scan(sum).all : total);
        if (goal > total) return PADDING;
        total = search(goal).before;
    }
    return ~(uint32_t)shared.list[search(behind(how.share, total)).place];
}

// The same from the whole row.
__device__ __noinline__ uint32_t draw_of_many(const float* row, const Draw& op, const Row& how, Shared& shared,
                                              Weights weight) {
    // Any factor would do that is a number; with this one the last bin begins where weights end.
    const float factor = fminf(fmaxf((float)(weight.scale * (BINS / 48.0)), 1e-30f), 1e30f);
    const Distance distance = {(float)weight.largest, factor};
    // Less likely ones are not left; of those that are equal, so many.
    uint32_t last = 0;
    uint64_t equals = 0;
    if (how.top_k && how.top_k < op.vocabulary) {
        const auto one = [](float) { return (uint64_t)1; };
        fill(row, op.vocabulary, shared, distance, one);
        const Found found = descend(row, op.vocabulary, how.top_k, shared, distance, one);
        last = found.place;
        equals = how.top_k - found.before;
    }
    fill(row, op.vocabulary, shared, distance, weight);
    uint64_t sum = 0;
    if (equals) {
        for_all_quads<1>(row, op.vocabulary, [&](uint32_t, const float* logits) {
#pragma unroll
            for (uint32_t i = 0; i < QUAD; i++) sum += key_of(logits[i]) > last ? weight(logits[i]) : 0;
        });
    } else {
        for (uint32_t bin = threadIdx.x; bin < BINS; bin += THREADS) sum += shared.by_distance[bin];
    }
    uint64_t total = scan(sum).all;
    if (equals) total += equals * weight(logit_of(last));
    const auto by_weight = [&](uint64_t goal) {
        return descend(row, op.vocabulary, goal, shared, distance, weight);
    };
    if (how.top_p < 1.0) {
        const uint64_t goal = enough(how.top_p, total);
        const Found found = by_weight(goal);
        const uint64_t each = weight(logit_of(found.place));
        total = found.before + divide_up(goal - found.before, each) * each;
    }
    const uint64_t goal = behind(how.share, total);
    const Found found = by_weight(goal);
    const uint64_t each = weight(logit_of(found.place));
    return find_token(
        row, op.vocabulary, [&](float logit) { return (uint64_t)(key_of(logit) == found.place); },
        [&](uint64_t) { return divide_up(goal - found.before, each); });
}

struct Best {
    float value;
    uint32_t token;
};
__device__ __forceinline__ Best better(Best a, Best b) {
    return b.value > a.value || (b.value == a.value && b.token < a.token) ? b : a;
}

extern "C" __global__ void __launch_bounds__(THREADS) draw(const __grid_constant__ Draw op) {
    __shared__ Shared shared;
    __shared__ Best of_warps[32];
    const Row& how = op.rows[blockIdx.x];
    float* row = op.logits + (size_t)blockIdx.x * op.vocabulary;
    if (!how.is_drawn) {
        if (threadIdx.x == 0) op.tokens[blockIdx.x] = PADDING;
        return;
    }
    if (threadIdx.x < FORBIDDEN && how.forbidden[threadIdx.x] < op.vocabulary)
        row[how.forbidden[threadIdx.x]] = -INFINITY;
    __syncthreads();
    Best best = {-INFINITY, PADDING};
    bool broken = false;
    // In order, so that the first of a thread's equals stays.
    for_all_quads<8>(row, op.vocabulary, [&](uint32_t at, const float* logits) {
#pragma unroll
        for (uint32_t i = 0; i < QUAD; i++) {
            broken |= isnan(logits[i]);
            if (logits[i] > best.value) best = {logits[i], at + i};
        }
    });
    const uint32_t own_key = key_of(best.value);
#pragma unroll
    for (int step = 16; step; step /= 2) {
        const Best other = {__shfl_xor_sync(WARP, best.value, step), __shfl_xor_sync(WARP, best.token, step)};
        best = better(best, other);
    }
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = best;
    broken = __syncthreads_or(broken);
    best = of_warps[0];
    for (uint32_t warp = 1; warp < THREADS / 32; warp++) best = better(best, of_warps[warp]);
    uint32_t token = best.token;
    if (broken || isinf(best.value)) {
        token = PADDING;
    } else if (how.scale != 0.0) {
        const Weights weight = {best.value, how.scale * LOG2_E, how.min_p, op.unit};
        if (how.top_k || how.top_p < 1.0) {
            token = draw_of_few(row, op, how, own_key, shared, weight);
            if (token == PADDING) token = draw_of_many(row, op, how, shared, weight);
        } else {
            token = find_token(row, op.vocabulary, weight,
                               [&](uint64_t total) { return behind(how.share, total); });
        }
    }
    if (threadIdx.x == 0) op.tokens[blockIdx.x] = token;
}

// Products by a warpgroup: four warps that share the matrix unit, with the right side in shared memory.
//
// The right side lies as the unit's widest pattern has it: rows of 64 halves, in which chunks of 16 bytes
// change places with the row (`place`). The left side and the sums are in registers. A product runs beside
// what the warps do next; what it reads and writes is left alone until `products_done`.
#pragma once
#include "numbers.cuh"

constexpr int ROW_HALVES = 64, ROW_BYTES = 2 * ROW_HALVES, CHUNK_BYTES = 16;

// Where a chunk of a row lies. A column of rows begins at a multiple of 1,024 bytes.
__device__ __forceinline__ uint32_t place(uint32_t row, uint32_t chunk) {
    return row * ROW_BYTES + (chunk ^ row % 8) * CHUNK_BYTES;
}
// Names a column of rows for the unit: groups of eight rows are 1,024 bytes apart.
__device__ __forceinline__ uint64_t column_at(uint32_t address) {
    constexpr uint64_t PATTERN_128 = 1ull << 62, GROUPS = (uint64_t)(8 * ROW_BYTES >> 4) << 32, UNUSED = 1ull << 16;
    return PATTERN_128 | GROUPS | UNUSED | (uint64_t)((address & 0x3ffff) >> 4);
}
// Sixteen halves further in each row.
constexpr uint64_t NEXT_STEP = 32 >> 4;

// What this thread wrote to shared memory is seen by the unit.
__device__ __forceinline__ void show_to_unit() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// What was written to registers is seen by the products that follow.
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// All but the newest `running` groups of products are done.
template <int running>
__device__ __forceinline__ void products_done() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(running) : "memory");
}
// Keeps the compiler from moving registers that a product has.
template <int COLUMNS>
__device__ __forceinline__ void hold(float (&sums)[COLUMNS][4]) {
#pragma unroll
    for (int c = 0; c < COLUMNS; c++)
#pragma unroll
        for (int e = 0; e < 4; e++) asm volatile("" : "+f"(sums[c][e])::"memory");
}

#define SUMS_OF(c) "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
#define SUMS_OF_8(s, n) \
    SUMS_OF(s[n]), SUMS_OF(s[n + 1]), SUMS_OF(s[n + 2]), SUMS_OF(s[n + 3]), SUMS_OF(s[n + 4]), SUMS_OF(s[n + 5]), \
        SUMS_OF(s[n + 6]), SUMS_OF(s[n + 7])
#define NUMBERED_32 \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29," \
    "%30,%31"

// sums = left * right, or sums += it: 64 rows and 16 columns on the left, 64 rows on the right.
__device__ __forceinline__ void product(float (&sums)[8][4], const uint32_t (&left)[4], uint64_t right, bool added) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %37, 0;"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" NUMBERED_32 "}, {%32,%33,%34,%35}, %36, p, 1, 1, 0;}"
        : SUMS_OF_8(sums, 0)
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"((int)added));
}
// The same with 128 rows on the right.
__device__ __forceinline__ void product(float (&sums)[16][4], const uint32_t (&left)[4], uint64_t right, bool added) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %69, 0;"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" NUMBERED_32
        ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,"
        "%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, p, 1, 1, 0;}"
        : SUMS_OF_8(sums, 0), SUMS_OF_8(sums, 8)
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"((int)added));
}

// Contractions by tiles in shared memory, in the fixed order of additions that every device uses: chains of fused multiply-adds
// over 256 elements of depth, and the chains' sums added in order. The generator writes the functions that address operands and
// store a sum.
namespace pf {

// 256 threads in 16 rows of 16 compute T by U results. `LK` and `RK`: neighbours in depth are adjacent in memory, left and right.
// Adds the depth range [from, to): all of it, or one panel when panels are distributed over work-groups.
template <class D, int T, int U, bool LK, bool RK, class I, class Row, class Column, class Depth, class Left, class Right, class Store>
PF_DEVICE void contract(I rows, I columns, I from, I to, I row0, I column0, Row row, Column column, Depth depth, Left left, Right right,
                        Store store) {
    typedef typename D::A A;
    constexpr int K = 16, X = T / 16, Y = U / 16;
    PF_SHARED A tile_left[K][T + 1];
    PF_SHARED A tile_right[K][U + 1];
    PF_SHARED I at_row[T];
    PF_SHARED I at_column[U];
    PF_SHARED I at_left[K];
    PF_SHARED I at_right[K];
    const int t = (int)lane(), x = t % 16, y = t / 16;
    for (int i = t; i < T; i += 256) at_row[i] = row0 + i < rows ? row(row0 + i) : 0;
    for (int i = t; i < U; i += 256) at_column[i] = column0 + i < columns ? column(column0 + i) : 0;
    A sum[X][Y], chain[X][Y];
#pragma unroll
    for (int i = 0; i < X; i++)
#pragma unroll
        for (int j = 0; j < Y; j++) sum[i][j] = chain[i][j] = (A)0;
    bool first = true;
    for (I k0 = from; k0 < to; k0 += K) {
        const int kept = to - k0 < K ? (int)(to - k0) : K;
        barrier();
        if (t < kept) depth(k0 + t, at_left[t], at_right[t]);
        barrier();
#pragma unroll
        for (int e = t; e < T * K; e += 256) {
            const int k = LK ? e % K : e / T, i = LK ? e / K : e % T;
            if (k < kept) tile_left[k][i] = row0 + i < rows ? left(at_row[i] + at_left[k]) : (A)0;
        }
#pragma unroll
        for (int e = t; e < U * K; e += 256) {
            const int k = RK ? e % K : e / U, i = RK ? e / K : e % U;
            if (k < kept) tile_right[k][i] = column0 + i < columns ? right(at_column[i] + at_right[k]) : (A)0;
        }
        barrier();
        auto multiply = [&](int k) {
            A l[X], r[Y];
#pragma unroll
            for (int i = 0; i < X; i++) l[i] = tile_left[k][y + 16 * i];
#pragma unroll
            for (int j = 0; j < Y; j++) r[j] = tile_right[k][x + 16 * j];
#pragma unroll
            for (int i = 0; i < X; i++)
#pragma unroll
                for (int j = 0; j < Y; j++) chain[i][j] = fma(l[i], r[j], chain[i][j]);
        };
        if (kept == K) {
#pragma unroll 4
            for (int k = 0; k < K; k++) multiply(k);
        } else {
            for (int k = 0; k < kept; k++) multiply(k);
        }
        if ((k0 + K) % 256 == 0 || k0 + K >= to) {
#pragma unroll
            for (int i = 0; i < X; i++)
#pragma unroll
                for (int j = 0; j < Y; j++) {
                    sum[i][j] = first ? chain[i][j] : (A)(sum[i][j] + chain[i][j]);
                    chain[i][j] = (A)0;
                }
            first = false;
        }
    }
#pragma unroll
    for (int i = 0; i < X; i++)
#pragma unroll
        for (int j = 0; j < Y; j++)
            if (row0 + y + 16 * i < rows && column0 + x + 16 * j < columns) store(row0 + y + 16 * i, column0 + x + 16 * j, sum[i][j]);
}

}  // namespace pf

#if defined(__gfx90a__) || defined(__gfx942__)
namespace pf {

typedef float quad __attribute__((ext_vector_type(4)));
typedef _Float16 quad_f16 __attribute__((ext_vector_type(4)));
typedef short quad_bf16 __attribute__((ext_vector_type(4)));

// One MFMA instruction: 16 by 16 results, `depth` deep. `at` is the position of this lane's first element of depth, `STEP` the
// distance to the next.
template <class D> struct Matrix;
template <> struct Matrix<F32> {
    static constexpr int depth = 4;
    template <int STEP> PF_MEMBER quad multiply(const f32* left, const f32* right, quad sum) {
        const int k = (int)lane() % 64 / 16;
        return __builtin_amdgcn_mfma_f32_16x16x4f32(left[k * STEP], right[k * STEP], sum, 0, 0, 0);
    }
};
template <> struct Matrix<F16> {
    static constexpr int depth = 16;
    template <int STEP> PF_MEMBER quad multiply(const _Float16* left, const _Float16* right, quad sum) {
        const int k = (int)lane() % 64 / 16 * 4;
        quad_f16 l, r;
#pragma unroll
        for (int i = 0; i < 4; i++) l[i] = left[(k + i) * STEP], r[i] = right[(k + i) * STEP];
        return __builtin_amdgcn_mfma_f32_16x16x16f16(l, r, sum, 0, 0, 0);
    }
};
template <> struct Matrix<BF16> {
    static constexpr int depth = 16;
    template <int STEP> PF_MEMBER quad multiply(const u16* left, const u16* right, quad sum) {
        const int k = (int)lane() % 64 / 16 * 4;
        quad_bf16 l, r;
#pragma unroll
        for (int i = 0; i < 4; i++) l[i] = (short)left[(k + i) * STEP], r[i] = (short)right[(k + i) * STEP];
        return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(l, r, sum, 0, 0, 0);
    }
};

// Four wavefronts compute 64 by 64 results, each 32 by 32 of them.
template <class D, bool LK, bool RK, class I, class Row, class Column, class Depth, class Left, class Right, class Store>
PF_DEVICE void contract_matrix(I rows, I columns, I length, I row0, I column0, Row row, Column column, Depth depth, Left left, Right right,
                               Store store) {
    typedef typename D::S S;
    constexpr int K = 16, T = 64, STEP = T + 2;
    PF_SHARED S tile_left[K * STEP];
    PF_SHARED S tile_right[K * STEP];
    PF_SHARED I at_row[T];
    PF_SHARED I at_column[T];
    PF_SHARED I at_left[K];
    PF_SHARED I at_right[K];
    const int t = (int)lane(), wave = t / 64, x = t % 16;
    if (t < T) {
        at_row[t] = row0 + t < rows ? row(row0 + t) : 0;
        at_column[t] = column0 + t < columns ? column(column0 + t) : 0;
    }
    quad sum[2][2] = {};
    for (I k0 = 0; k0 < length; k0 += K) {
        const int kept = length - k0 < K ? (int)(length - k0) : K;
        barrier();
        if (t < kept) depth(k0 + t, at_left[t], at_right[t]);
        barrier();
#pragma unroll
        for (int e = t; e < T * K; e += 256) {
            const int k = LK ? e % K : e / T, i = LK ? e / K : e % T;
            tile_left[k * STEP + i] = k < kept && row0 + i < rows ? left(at_row[i] + at_left[k]) : (S)0;
        }
#pragma unroll
        for (int e = t; e < T * K; e += 256) {
            const int k = RK ? e % K : e / T, i = RK ? e / K : e % T;
            tile_right[k * STEP + i] = k < kept && column0 + i < columns ? right(at_column[i] + at_right[k]) : (S)0;
        }
        barrier();
#pragma unroll
        for (int k = 0; k < K; k += Matrix<D>::depth)
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    const S* l = tile_left + k * STEP + wave / 2 * 32 + i * 16 + x;
                    const S* r = tile_right + k * STEP + wave % 2 * 32 + j * 16 + x;
                    sum[i][j] = Matrix<D>::template multiply<STEP>(l, r, sum[i][j]);
                }
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const I m = row0 + wave / 2 * 32 + i * 16 + t % 64 / 16 * 4 + e, n = column0 + wave % 2 * 32 + j * 16 + x;
                if (m < rows && n < columns) store(m, n, sum[i][j][e]);
            }
}

}  // namespace pf
#endif

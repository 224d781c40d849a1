// Contractions with matrix instructions (MFMA). They add in their own order, in float. The generator writes the functions that
// address operands and store a sum.
#if defined(__gfx90a__) || defined(__gfx942__)
namespace pf {

typedef float quad __attribute__((ext_vector_type(4)));
typedef _Float16 quad_f16 __attribute__((ext_vector_type(4)));
typedef short quad_bf16 __attribute__((ext_vector_type(4)));

// One MFMA instruction: 16 by 16 results, `DEPTH` deep. A lane holds `OWN` neighbours in depth of one row of each operand.
// Rows of a tile are `STEP` elements apart: a multiple of four where a lane reads four at once, and such that the 16 rows are in
// different banks.
template <class D> struct Matrix;
template <> struct Matrix<F32> {
    static constexpr int DEPTH = 4, OWN = 1, K = 16, STEP = 17;
    typedef float Own;
    PF_MEMBER quad multiply(float left, float right, quad sum) {
        return __builtin_amdgcn_mfma_f32_16x16x4f32(left, right, sum, 0, 0, 0);
    }
};
template <> struct Matrix<F16> {
    static constexpr int DEPTH = 16, OWN = 4, K = 32, STEP = 36;
    typedef quad_f16 Own;
    PF_MEMBER quad multiply(quad_f16 left, quad_f16 right, quad sum) {
        return __builtin_amdgcn_mfma_f32_16x16x16f16(left, right, sum, 0, 0, 0);
    }
};
template <> struct Matrix<BF16> {
    static constexpr int DEPTH = 16, OWN = 4, K = 32, STEP = 36;
    typedef quad_bf16 Own;
    PF_MEMBER quad multiply(quad_bf16 left, quad_bf16 right, quad sum) {
        return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(left, right, sum, 0, 0, 0);
    }
};

// How a tile is read: neighbours in a row or in depth, one or four at a time. Four at a time need aligned groups of four that are
// inside or outside as a whole.
enum Reading { ROWS, DEPTH, FOUR_ROWS, FOUR_DEPTH };

// Copies T rows with K elements of depth. `row` says whether a row exists; `load` and `load_four` read at an offset.
template <class D, int T, Reading R, class P, class I, class Load, class Four>
PF_DEVICE void fill(typename D::S* tile, const P* at_row, const P* at_depth, I rows, int kept, Load load, Four load_four) {
    typedef typename D::S S;
    typedef S Quad __attribute__((ext_vector_type(4)));
    constexpr int K = Matrix<D>::K, STEP = Matrix<D>::STEP;
    const int t = (int)lane();
    if constexpr (R == FOUR_DEPTH || R == FOUR_ROWS) {
#pragma unroll
        for (int e = t; e < T * K / 4; e += 256) {
            const int k = R == FOUR_DEPTH ? e % (K / 4) * 4 : e / (T / 4);
            const int i = R == FOUR_DEPTH ? e / (K / 4) : e % (T / 4) * 4;
            const Quad four = k < kept && i < rows ? load_four(at_row[i] + at_depth[k]) : (Quad)(S)0;
            if constexpr (R == FOUR_ROWS) {
#pragma unroll
                for (int n = 0; n < 4; n++) tile[(i + n) * STEP + k] = four[n];
            } else if constexpr (STEP % 4 == 0) {
                *(Quad*)(tile + i * STEP + k) = four;
            } else {
#pragma unroll
                for (int n = 0; n < 4; n++) tile[i * STEP + k + n] = four[n];
            }
        }
    } else {
#pragma unroll
        for (int e = t; e < T * K; e += 256) {
            const int k = R == DEPTH ? e % K : e / T, i = R == DEPTH ? e / K : e % T;
            tile[i * STEP + k] = k < kept && i < rows ? load(at_row[i] + at_depth[k]) : (S)0;
        }
    }
}

// Four wavefronts compute T by T results, each a quarter of them, over the depth [from, to).
template <class D, int T, Reading L, Reading R, class I, class Row, class Column, class Depth, class Left, class Left4, class Right,
          class Right4, class Store>
PF_DEVICE void contract_matrix(I rows, I columns, I from, I to, I row0, I column0, Row row, Column column, Depth depth, Left left,
                               Left4 left4, Right right, Right4 right4, Store store) {
    typedef typename D::S S;
    typedef Matrix<D> M;
    typedef typename M::Own Own;
    typedef decltype(column((I)0)) C;
    constexpr int K = M::K, STEP = M::STEP, HALF = T / 2, N = T / 32;
    PF_SHARED S tile_left[T * STEP] __attribute__((aligned(16)));
    PF_SHARED S tile_right[T * STEP] __attribute__((aligned(16)));
    PF_SHARED I at_row[T];
    PF_SHARED C at_column[T];
    PF_SHARED I at_left[K];
    PF_SHARED C at_right[K];
    const int t = (int)lane(), wave = t / 64, x = t % 16, y = t % 64 / 16;
    if (t < T) {
        at_row[t] = row0 + t < rows ? row(row0 + t) : 0;
        at_column[t] = column0 + t < columns ? column(column0 + t) : C();
    }
    quad sum[N][N] = {};
    for (I k0 = from; k0 < to; k0 += K) {
        const int kept = to - k0 < K ? (int)(to - k0) : K;
        barrier();
        if (t < kept) depth(k0 + t, at_left[t], at_right[t]);
        barrier();
        fill<D, T, L>(tile_left, at_row, at_left, rows - row0, kept, left, left4);
        fill<D, T, R>(tile_right, at_column, at_right, columns - column0, kept, right, right4);
        barrier();
#pragma unroll
        for (int k = 0; k < K; k += M::DEPTH) {
            Own l[N], r[N];
#pragma unroll
            for (int i = 0; i < N; i++) {
                l[i] = *(const Own*)(tile_left + (wave / 2 * HALF + i * 16 + x) * STEP + k + y * M::OWN);
                r[i] = *(const Own*)(tile_right + (wave % 2 * HALF + i * 16 + x) * STEP + k + y * M::OWN);
            }
#pragma unroll
            for (int i = 0; i < N; i++)
#pragma unroll
                for (int j = 0; j < N; j++) sum[i][j] = M::multiply(l[i], r[j], sum[i][j]);
        }
    }
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int j = 0; j < N; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const I m = row0 + wave / 2 * HALF + i * 16 + y * 4 + e, n = column0 + wave % 2 * HALF + j * 16 + x;
                if (m < rows && n < columns) store(m, n, sum[i][j][e]);
            }
}

}  // namespace pf
#endif

// Contractions by tiles in shared memory, in the fixed order of additions that every device uses: chains of fused multiply-adds
// over 256 elements of depth, and the chains' sums added in order. The generator writes the functions that address operands and
// store a sum.
namespace pf {

// An element of a padded operand whose zeros are not in memory: its offset, and a mark that says whether it is in memory or a zero
// (see src/work/folded.rs).
template <class I> struct Spot {
    I at;
    u32 mark;
    PF_METHOD Spot operator+(Spot other) const { return {at + other.at, mark + other.mark}; }
};
// Whether the element is in memory: in every field of its mark, the coordinate is at least zero and less than the length.
PF_DEVICE bool inside(u32 mark, u32 lengths, u32 limits) { return (mark & ~(mark - lengths) & limits) == limits; }

// 256 threads in 16 rows of 16 compute T by U results. `LK` and `RK`: neighbours in depth are adjacent in memory, left and right.
// Adds the depth range [from, to): all of it, or one panel when panels are distributed over work-groups.
template <class D, int T, int U, bool LK, bool RK, class I, class Row, class Column, class Depth, class Left, class Right, class Store>
PF_DEVICE void contract(I rows, I columns, I from, I to, I row0, I column0, Row row, Column column, Depth depth, Left left, Right right,
                        Store store) {
    typedef typename D::A A;
    typedef decltype(column((I)0)) C;
    constexpr int K = 16, X = T / 16, Y = U / 16;
    PF_SHARED A tile_left[K][T + 1];
    PF_SHARED A tile_right[K][U + 1];
    PF_SHARED I at_row[T];
    PF_SHARED C at_column[U];
    PF_SHARED I at_left[K];
    PF_SHARED C at_right[K];
    const int t = (int)lane(), x = t % 16, y = t / 16;
    for (int i = t; i < T; i += 256) at_row[i] = row0 + i < rows ? row(row0 + i) : 0;
    for (int i = t; i < U; i += 256) at_column[i] = column0 + i < columns ? column(column0 + i) : C();
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

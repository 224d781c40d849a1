// Attention without a matrix of scores in memory: a work-group walks over blocks of keys (or of queries), and keeps sums for its
// own 64 rows in registers. The softmax is computed on the way: when a larger score appears, earlier sums are scaled down.
//
// Products use matrix instructions. Of their results, a lane has column `x` (lane % 16) and rows `y * 4` to `y * 4 + 3`
// (y = lane / 16 % 4). Each of the four wavefronts has 16 of the 64 rows.
#if defined(__gfx90a__) || defined(__gfx942__)
namespace pf {

// Elements between the rows of a tile that is `W` wide: aligned for reads of a lane's own elements, and in different banks.
template <class D> PF_DEVICE constexpr int row_step(int W) { return W + (sizeof(typename D::S) == 2 ? 4 : 1); }

template <class D> PF_DEVICE typename Matrix<D>::Own own(const typename D::S* row, int k) {
    return *(const typename Matrix<D>::Own*)(row + k + (int)lane() % 64 / 16 * Matrix<D>::OWN);
}

// This lane's elements of 16 rows in memory, for the left side of products; zero outside.
template <class D, int W, class I, class Load>
PF_DEVICE void read_rows(typename Matrix<D>::Own* mine, I row0, I rows, int width, Load load) {
    typedef Matrix<D> M;
    struct Raw {
        typename D::S s[M::OWN];
    };
    const int x = (int)lane() % 16, y = (int)lane() % 64 / 16;
#pragma unroll
    for (int p = 0; p < W / M::DEPTH; p++) {
        Raw raw;
#pragma unroll
        for (int n = 0; n < M::OWN; n++) {
            const int k = p * M::DEPTH + y * M::OWN + n;
            raw.s[n] = row0 + x < rows && k < width ? load(row0 + x, (I)k) : (typename D::S)0;
        }
        mine[p] = bits<typename Matrix<D>::Own>(raw);
    }
}

// Copies B rows to shared memory, by rows, by columns or both; zero outside.
template <class D, int W, int B, bool ROWS, bool COLUMNS, class I, class Load>
PF_DEVICE void read_tile(typename D::S* by_row, typename D::S* by_column, I row0, I rows, int width, Load load) {
    constexpr int STEP = row_step<D>(W), TURN = row_step<D>(B);
#pragma unroll 4
    for (int e = (int)lane(); e < B * W; e += 256) {
        const int i = e / W, k = e % W;
        const typename D::S value = row0 + i < rows && k < width ? load(row0 + i, (I)k) : (typename D::S)0;
        if (ROWS) by_row[i * STEP + k] = value;
        if (COLUMNS) by_column[k * TURN + i] = value;
    }
}

// Reduces over the 16 lanes that have the columns of one row.
template <class R> PF_DEVICE float along_row(float v) {
#pragma unroll
    for (int far = 8; far > 0; far /= 2) {
        const int other = __builtin_amdgcn_ds_bpermute((((int)lane() % 64) ^ far) * 4, bits<int>(v));
        v = R::template join<float>(v, bits<float>(other));
    }
    return v;
}
struct Higher {
    template <class V> PF_MEMBER V join(V x, V y) { return x > y ? x : y; }
};

// 16 rows in registers times the rows of a tile.
template <class D, int W, int C>
PF_DEVICE void times_rows(quad (&sum)[C], const typename Matrix<D>::Own* mine, const typename D::S* tile) {
    typedef Matrix<D> M;
    const int x = (int)lane() % 16;
#pragma unroll
    for (int c = 0; c < C; c++) sum[c] = (quad)0.0f;
#pragma unroll
    for (int p = 0; p < W / M::DEPTH; p++)
#pragma unroll
        for (int c = 0; c < C; c++)
            sum[c] = M::multiply(mine[p], own<D>(tile + (c * 16 + x) * row_step<D>(W), p * M::DEPTH), sum[c]);
}

// Adds this wavefront's rows of `weights`, B wide, times a tile that lies by columns.
template <class D, int W, int B>
PF_DEVICE void add_weighted(quad (&sum)[W / 16], const typename D::S* weights, const typename D::S* by_column) {
    typedef Matrix<D> M;
    const int x = (int)lane() % 16, wave = (int)lane() / 64;
    constexpr int TURN = row_step<D>(B);
#pragma unroll
    for (int k = 0; k < B; k += M::DEPTH) {
        const typename M::Own left = own<D>(weights + (wave * 16 + x) * TURN, k);
#pragma unroll
        for (int n = 0; n < W / 16; n++) sum[n] = M::multiply(left, own<D>(by_column + (n * 16 + x) * TURN, k), sum[n]);
    }
}

// Writes results to this wavefront's rows of a tile that is B wide.
template <class D, int B> PF_DEVICE void put_rows(typename D::S* tile, const quad (&value)[B / 16]) {
    const int x = (int)lane() % 16, y = (int)lane() % 64 / 16, wave = (int)lane() / 64;
#pragma unroll
    for (int c = 0; c < B / 16; c++)
#pragma unroll
        for (int e = 0; e < 4; e++) tile[(wave * 16 + y * 4 + e) * row_step<D>(B) + c * 16 + x] = D::store(value[c][e]);
}

template <class D, int W, class I, class Store>
PF_DEVICE void store_rows(const quad (&value)[W / 16], I row, I rows, int width, Store store) {
    const int x = (int)lane() % 16, y = (int)lane() % 64 / 16;
#pragma unroll
    for (int n = 0; n < W / 16; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (row + y * 4 + e < rows && n * 16 + x < width) store(row + y * 4 + e, (I)(n * 16 + x), value[n][e]);
}

template <bool CAUSAL, class I> PF_DEVICE bool sees(I query, I key, I queries, I keys) {
    return query < queries && key < keys && (!CAUSAL || key <= query);
}

// The exponential of a scaled score less the highest one, without rounding the scaled score.
PF_DEVICE float power(float score, float scale, float highest) { return exp(__builtin_fmaf(score, scale, -highest)); }

// The results of 64 queries; `keep_highest` gets the highest score of a row, `keep_share` the weight of that score. The sum of both
// logarithms in one number would lose digits of the weights where scores are high.
template <class D, int W, int B, bool CAUSAL, class I, class Q, class K, class V, class Store, class Keep, class Keep2>
PF_DEVICE void attention(I queries, I keys, int width, float scale, I row0, Q q, K k, V v, Store store, Keep keep_highest,
                         Keep2 keep_share) {
    typedef typename D::S S;
    PF_SHARED S tile_k[B * row_step<D>(W)] __attribute__((aligned(16)));
    PF_SHARED S tile_v[W * row_step<D>(B)] __attribute__((aligned(16)));
    PF_SHARED S weights[64 * row_step<D>(B)] __attribute__((aligned(16)));
    const int x = (int)lane() % 16, y = (int)lane() % 64 / 16;
    const I row = row0 + (int)lane() / 64 * 16;
    typename Matrix<D>::Own mine[W / Matrix<D>::DEPTH];
    read_rows<D, W>(mine, row, queries, width, q);
    quad out[W / 16] = {}, score[B / 16];
    float high[4], sum[4];
#pragma unroll
    for (int e = 0; e < 4; e++) high[e] = -__builtin_inff(), sum[e] = 0.0f;
    const I end = CAUSAL && row0 + 64 < keys ? row0 + 64 : keys;
    for (I from = 0; from < end; from += B) {
        barrier();
        read_tile<D, W, B, true, false>(tile_k, tile_k, from, keys, width, k);
        read_tile<D, W, B, false, true>(tile_v, tile_v, from, keys, width, v);
        barrier();
        times_rows<D, W>(score, mine, tile_k);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            float most = high[e];
#pragma unroll
            for (int c = 0; c < B / 16; c++) {
                const bool seen = sees<CAUSAL>(row + y * 4 + e, from + c * 16 + x, queries, keys);
                score[c][e] = seen ? score[c][e] : -__builtin_inff();
                most = Higher::join(most, score[c][e] * scale);
            }
            most = along_row<Higher>(most);
            // A row whose keys so far are all hidden has no largest score yet.
            const float shift = most == -__builtin_inff() ? 0.0f : most;
            const float factor = exp(high[e] - shift);
            float part = 0.0f;
#pragma unroll
            for (int c = 0; c < B / 16; c++) part += score[c][e] = power(score[c][e], scale, shift);
            sum[e] = sum[e] * factor + along_row<Sum>(part);
            high[e] = most;
#pragma unroll
            for (int n = 0; n < W / 16; n++) out[n][e] *= factor;
        }
        put_rows<D, B>(weights, score);
        barrier();
        add_weighted<D, W, B>(out, weights, tile_v);
    }
#pragma unroll
    for (int e = 0; e < 4; e++) {
#pragma unroll
        for (int n = 0; n < W / 16; n++) out[n][e] /= sum[e];
        if (x == 0 && row + y * 4 + e < queries) {
            keep_highest(row + y * 4 + e, high[e]);
            keep_share(row + y * 4 + e, 1.0f / sum[e]);
        }
    }
    store_rows<D, W>(out, row, queries, width, store);
}

// The gradient of 64 queries, and `delta`, the sum of gradient times result of each row.
template <class D, int W, int B, bool CAUSAL, class I, class Q, class K, class V, class O, class G, class High, class Share, class Store,
          class Keep>
PF_DEVICE void attention_of_queries(I queries, I keys, int width, float scale, I row0, Q q, K k, V v, O o, G g, High highest,
                                    Share share, Store store, Keep keep) {
    typedef typename D::S S;
    PF_SHARED S tile_k[B * row_step<D>(W)] __attribute__((aligned(16)));
    PF_SHARED S turned_k[W * row_step<D>(B)] __attribute__((aligned(16)));
    PF_SHARED S tile_v[B * row_step<D>(W)] __attribute__((aligned(16)));
    PF_SHARED S weights[64 * row_step<D>(B)] __attribute__((aligned(16)));
    const int x = (int)lane() % 16, y = (int)lane() % 64 / 16;
    const I row = row0 + (int)lane() / 64 * 16;
    typename Matrix<D>::Own mine[W / Matrix<D>::DEPTH], slope[W / Matrix<D>::DEPTH];
    read_rows<D, W>(mine, row, queries, width, q);
    read_rows<D, W>(slope, row, queries, width, g);
    float delta[4], shift[4], factor[4];
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const I r = row + y * 4 + e;
        float part = 0.0f;
        if (r < queries)
            for (int j = x; j < width; j += 16) part += D::load(g(r, (I)j)) * D::load(o(r, (I)j));
        delta[e] = along_row<Sum>(part);
        shift[e] = r < queries ? highest(r) : 0.0f;
        factor[e] = r < queries ? share(r) : 0.0f;
        if (x == 0 && r < queries) keep(r, delta[e]);
    }
    quad out[W / 16] = {}, score[B / 16], change[B / 16];
    const I end = CAUSAL && row0 + 64 < keys ? row0 + 64 : keys;
    for (I from = 0; from < end; from += B) {
        barrier();
        read_tile<D, W, B, true, true>(tile_k, turned_k, from, keys, width, k);
        read_tile<D, W, B, true, false>(tile_v, tile_v, from, keys, width, v);
        barrier();
        times_rows<D, W>(score, mine, tile_k);
        times_rows<D, W>(change, slope, tile_v);
#pragma unroll
        for (int c = 0; c < B / 16; c++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const bool seen = sees<CAUSAL>(row + y * 4 + e, from + c * 16 + x, queries, keys);
                const float weight = seen ? power(score[c][e], scale, shift[e]) * factor[e] : 0.0f;
                change[c][e] = weight * (change[c][e] - delta[e]) * scale;
            }
        put_rows<D, B>(weights, change);
        barrier();
        add_weighted<D, W, B>(out, weights, turned_k);
    }
    store_rows<D, W>(out, row, queries, width, store);
}

// The gradients of 64 keys and of their values.
template <class D, int W, int B, bool CAUSAL, class I, class Q, class K, class V, class G, class High, class Share, class Delta, class Store,
          class Store2>
PF_DEVICE void attention_of_keys(I queries, I keys, int width, float scale, I row0, Q q, K k, V v, G g, High highest, Share share,
                                 Delta delta, Store store_key, Store2 store_value) {
    typedef typename D::S S;
    PF_SHARED S tile_q[B * row_step<D>(W)] __attribute__((aligned(16)));
    PF_SHARED S turned_q[W * row_step<D>(B)] __attribute__((aligned(16)));
    PF_SHARED S tile_g[B * row_step<D>(W)] __attribute__((aligned(16)));
    PF_SHARED S turned_g[W * row_step<D>(B)] __attribute__((aligned(16)));
    PF_SHARED S weights[64 * row_step<D>(B)] __attribute__((aligned(16)));
    const int x = (int)lane() % 16, y = (int)lane() % 64 / 16;
    const I row = row0 + (int)lane() / 64 * 16;
    typename Matrix<D>::Own mine[W / Matrix<D>::DEPTH], value[W / Matrix<D>::DEPTH];
    read_rows<D, W>(mine, row, keys, width, k);
    read_rows<D, W>(value, row, keys, width, v);
    quad of_key[W / 16] = {}, of_value[W / 16] = {}, score[B / 16], change[B / 16];
    for (I from = CAUSAL ? row0 / B * B : 0; from < queries; from += B) {
        barrier();
        read_tile<D, W, B, true, true>(tile_q, turned_q, from, queries, width, q);
        read_tile<D, W, B, true, true>(tile_g, turned_g, from, queries, width, g);
        barrier();
        times_rows<D, W>(score, mine, tile_q);
        times_rows<D, W>(change, value, tile_g);
#pragma unroll
        for (int c = 0; c < B / 16; c++) {
            const I query = from + c * 16 + x;
            const bool inside = query < queries;
            const float shift = inside ? highest(query) : 0.0f, factor = inside ? share(query) : 0.0f;
            const float less = inside ? delta(query) : 0.0f;
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const bool seen = sees<CAUSAL>(query, row + y * 4 + e, queries, keys);
                score[c][e] = seen ? power(score[c][e], scale, shift) * factor : 0.0f;
                change[c][e] = score[c][e] * (change[c][e] - less) * scale;
            }
        }
        put_rows<D, B>(weights, score);
        barrier();
        add_weighted<D, W, B>(of_value, weights, turned_g);
        barrier();
        put_rows<D, B>(weights, change);
        barrier();
        add_weighted<D, W, B>(of_key, weights, turned_q);
    }
    store_rows<D, W>(of_key, row, keys, width, store_key);
    store_rows<D, W>(of_value, row, keys, width, store_value);
}

}  // namespace pf
#endif

// Operations on lines: one thread per line if lines are short, else one work-group. B is the number of threads per line.
namespace pf {

template <class R, class V, int B, class I, class Load> PF_DEVICE V team(I length, Load load) {
    if constexpr (B == 1) {
        return by_thread<R, V>(length, load);
    } else {
        return by_group<R, V, B>((I)0, length, load);
    }
}
template <int B> PF_DEVICE u32 place() { return B == 1 ? 0 : lane(); }

template <class A, int B, bool LOG, class I, class Load, class Store> PF_DEVICE void softmax(I length, Load load, Store store) {
    const A high = team<Max, A, B>(length, load);
    const A sum = team<Sum, A, B>(length, [&](I i) { return exp(load(i) - high); });
    const A shift = LOG ? log(sum) : (A)0;
    for (I i = (I)place<B>(); i < length; i += B) {
        const A x = load(i) - high;
        store(i, LOG ? x - shift : exp(x) / sum);
    }
}

// `keep` gets the loss of the line for its class, and the logarithm of the sum of exponentials.
template <class A, int B, class I, class Load, class Keep>
PF_DEVICE void cross_entropy(I length, i64 label, Load load, Keep keep) {
    const A high = team<Max, A, B>(length, load);
    const A sum = team<Sum, A, B>(length, [&](I i) { return exp(load(i) - high); });
    if (place<B>() == 0) {
        const A kept = log(sum) + high;
        const bool is_class = label >= 0 && label < (i64)length;
        keep(is_class ? kept - load((I)label) : label == -1 ? (A)__builtin_nanf("") : (A)0, kept);
    }
}

// `store` gets the normalised numbers, `keep` mean and 1 / deviation.
template <class A, int B, class I, class Load, class Store, class Keep>
PF_DEVICE void normalise(I length, A epsilon, Load load, Store store, Keep keep) {
    const A mean = team<Sum, A, B>(length, load) / (A)length;
    const A squares = team<Sum, A, B>(length, [&](I i) {
        const A x = load(i) - mean;
        return x * x;
    });
    const A inverse = (A)1 / sqrt(squares / (A)length + epsilon);
    for (I i = (I)place<B>(); i < length; i += B) store(i, (load(i) - mean) * inverse);
    if (place<B>() == 0) keep(mean, inverse);
}

template <bool LARGEST, class V, class I> PF_DEVICE bool before(V x, I i, V y, I j) {
    const bool nan_x = x != x, nan_y = y != y;
    if (nan_x || nan_y) return nan_x && (!nan_y || i < j);
    return x == y ? i < j : LARGEST ? x > y : x < y;
}

template <class V, int B, bool LARGEST, class I, class Load> PF_DEVICE I arg_reduce(I length, Load load) {
    I at = (I)place<B>();
    // Threads beyond the end take the first element, which another thread has too.
    if (at >= length) at = 0;
    V best = load(at);
    for (I i = at + B; i < length; i += B) {
        const V x = load(i);
        if (before<LARGEST>(x, i, best, at)) best = x, at = i;
    }
    if constexpr (B > 1) {
        PF_SHARED V values[B];
        PF_SHARED I places[B];
        const u32 t = lane();
        values[t] = best;
        places[t] = at;
        barrier();
        for (u32 half = B / 2; half > 0; half /= 2) {
            if (t < half && before<LARGEST>(values[t + half], places[t + half], values[t], places[t])) {
                values[t] = values[t + half];
                places[t] = places[t + half];
            }
            barrier();
        }
        at = places[0];
        barrier();
    }
    return at;
}

// Sort keys: unsigned integers in the order of the values, NaN last in either direction.
template <bool DESCENDING> struct Key {
    PF_MEMBER u64 end(u64 key) { return DESCENDING ? ~key : key; }
    PF_MEMBER u64 of(double x) {
        if (x != x) return ~0ul;
        const u64 b = bits<u64>(x == 0 ? 0.0 : x);
        return end(b >> 63 ? ~b : b | 1ul << 63);
    }
    PF_MEMBER u64 of(float x) {
        if (x != x) return ~0ul;
        const u32 b = bits<u32>(x == 0 ? 0.0f : x);
        return end(b >> 31 ? (u32)~b : b | 1u << 31);
    }
    PF_MEMBER u64 of(bool x) { return end(x); }
    PF_MEMBER u64 of(u8 x) { return end(x); }
    PF_MEMBER u64 of(u16 x) { return end(x); }
    PF_MEMBER u64 of(u32 x) { return end(x); }
    PF_MEMBER u64 of(u64 x) { return end(x); }
    template <class T> PF_MEMBER u64 of(T x) { return end((u64)(i64)x ^ 1ul << 63); }
};

PF_DEVICE bool behind(u64 x, u32 i, u64 y, u32 j) { return x > y || (x == y && i > j); }

// A bitonic sorting network over P pairs, by B threads.
template <int P, int B, class Load, class Store> PF_DEVICE void sort_line(u32 length, Load load, Store store) {
    PF_SHARED u64 keys[P];
    PF_SHARED u32 places[P];
    const u32 t = lane();
    for (u32 i = t; i < P; i += B) {
        keys[i] = i < length ? load(i) : ~0ul;
        places[i] = i;
    }
    for (u32 size = 2; size <= P; size *= 2)
        for (u32 far = size / 2; far > 0; far /= 2) {
            barrier();
            for (u32 pair = t; pair < P / 2; pair += B) {
                const u32 i = pair / far * far * 2 + pair % far, j = i + far;
                if (behind(keys[i], places[i], keys[j], places[j]) == ((i & size) == 0)) {
                    const u64 key = keys[i];
                    const u32 place = places[i];
                    keys[i] = keys[j], places[i] = places[j];
                    keys[j] = key, places[j] = place;
                }
            }
        }
    barrier();
    for (u32 i = t; i < length; i += B) store(i, places[i]);
    barrier();
}

}  // namespace pf

// Reductions: which thread reads what in which order. The generator writes the functions that load a value and store a result.
namespace pf {

struct Sum {
    template <class V> PF_MEMBER V first() { return (V)0; }
    template <class V> PF_MEMBER V join(V x, V y) { return (V)(x + y); }
};
struct Product {
    template <class V> PF_MEMBER V first() { return (V)1; }
    template <class V> PF_MEMBER V join(V x, V y) { return (V)(x * y); }
};
template <class V> struct Ends {
    PF_MEMBER V low() { return Limits<V>::low; }
    PF_MEMBER V high() { return Limits<V>::high; }
};
template <> struct Ends<float> {
    PF_MEMBER float low() { return -__builtin_inff(); }
    PF_MEMBER float high() { return __builtin_inff(); }
};
template <> struct Ends<double> {
    PF_MEMBER double low() { return -__builtin_inf(); }
    PF_MEMBER double high() { return __builtin_inf(); }
};
template <> struct Ends<bool> {
    PF_MEMBER bool low() { return false; }
    PF_MEMBER bool high() { return true; }
};
struct Max {
    template <class V> PF_MEMBER V first() { return Ends<V>::low(); }
    template <class V> PF_MEMBER V join(V x, V y) { return x != x ? x : y != y ? y : x > y ? x : y; }
};
struct Min {
    template <class V> PF_MEMBER V first() { return Ends<V>::high(); }
    template <class V> PF_MEMBER V join(V x, V y) { return x != x ? x : y != y ? y : x < y ? x : y; }
};
struct Any {
    template <class V> PF_MEMBER V first() { return (V)0; }
    template <class V> PF_MEMBER V join(V x, V y) { return (V)(x | y); }
};
struct All {
    template <class V> PF_MEMBER V first() { return (V)1; }
    template <class V> PF_MEMBER V join(V x, V y) { return (V)(x & y); }
};

// Reduces one value per thread over the work-group; all threads get the result.
template <class R, int B, class V> PF_DEVICE V together(V mine) {
    PF_SHARED V part[B];
    part[lane()] = mine;
    barrier();
    for (u32 half = B / 2; half > 0; half /= 2) {
        if (lane() < half) part[lane()] = R::template join<V>(part[lane()], part[lane() + half]);
        barrier();
    }
    V all = part[0];
    barrier();
    return all;
}

// One work-group reads [from, to) of one result.
template <class R, class V, int B, class I, class Load> PF_DEVICE V by_group(I from, I to, Load load) {
    V mine = R::template first<V>();
    for (I r = from + (I)lane(); r < to; r += B) mine = R::template join<V>(mine, load(r));
    return together<R, B, V>(mine);
}

// One thread reads all of one result, in pieces of 64, to keep rounding errors of long sums small.
template <class R, class V, class I, class Load> PF_DEVICE V by_thread(I length, Load load) {
    V all = R::template first<V>();
    for (I from = 0; from < length; from += 64) {
        I to = length - from < 64 ? length : from + 64;
        V piece = R::template first<V>();
        for (I r = from; r < to; r++) piece = R::template join<V>(piece, load(r));
        all = R::template join<V>(all, piece);
    }
    return all;
}

}  // namespace pf

// What steps other than maps do, for every type and layout: the interpreter computes their programs before and after. Like the
// interpreter they are built ahead, and get sizes and places as argument words from src/interpret. The order of operations
// on floats is that of the kernels in reduce.hip, contract.hip and lines.hip.
#define PF_METHOD __attribute__((device, always_inline))
namespace pf {

// Types that are computed alike.
struct Floats {
    typedef float V;
    PF_MEMBER V get(u32 type, u64 base, i64 at) {
        return type == HALF ? pf::get<F16>(base, at) : type == BFLOAT ? pf::get<BF16>(base, at) : pf::get<F32>(base, at);
    }
    PF_MEMBER void put(u32 type, u64 base, i64 at, V x) {
        if (type == HALF) return pf::put<F16>(base, at, x);
        if (type == BFLOAT) return pf::put<BF16>(base, at, x);
        pf::put<F32>(base, at, x);
    }
};
struct Doubles {
    typedef double V;
    PF_MEMBER V get(u32, u64 base, i64 at) { return pf::get<F64>(base, at); }
    PF_MEMBER void put(u32, u64 base, i64 at, V x) { pf::put<F64>(base, at, x); }
};
template <class T> struct Wholes {
    typedef T V;
    PF_MEMBER V get(u32 type, u64 base, i64 at) { return (T)read(type, base, at); }
    PF_MEMBER void put(u32 type, u64 base, i64 at, V x) { write(type, base, at, (u64)x); }
};
typedef Wholes<i64> Signed;
// Also signed integers, where only the lower bits of results matter.
typedef Wholes<u64> Unsigned;

template <class V> struct Join {
    PF_MEMBER V first(u32 reduction) {
        switch (reduction) {
            case 1: return Product::first<V>();
            case 2: return Max::first<V>();
            case 3: return Min::first<V>();
            case 5: return (V)1;
            default: return (V)0;
        }
    }
    PF_MEMBER V join(u32 reduction, V x, V y) {
        switch (reduction) {
            case 0: return Sum::join<V>(x, y);
            case 1: return Product::join<V>(x, y);
            case 2: return Max::join<V>(x, y);
            case 3: return Min::join<V>(x, y);
            case 4: return value<V>(word(x) | word(y));
            default: return value<V>(word(x) & word(y));
        }
    }
};

// `by_group` and `by_thread` with the reduction and the number of threads as arguments.
template <class V, class Load> PF_DEVICE V team_of(u32 reduction, u32 threads, i64 from, i64 to, Load load) {
    typedef Join<V> J;
    if (threads == 1) {
        V all = J::first(reduction);
        for (i64 start = from; start < to; start += 64) {
            const i64 stop = to - start < 64 ? to : start + 64;
            V piece = J::first(reduction);
            for (i64 r = start; r < stop; r++) piece = J::join(reduction, piece, load(r));
            all = J::join(reduction, all, piece);
        }
        return all;
    }
    V mine = J::first(reduction);
    for (i64 r = from + (i64)lane(); r < to; r += threads) mine = J::join(reduction, mine, load(r));
    PF_SHARED V part[256];
    part[lane()] = mine;
    barrier();
    for (u32 half = threads / 2; half > 0; half /= 2) {
        if (lane() < half) part[lane()] = J::join(reduction, part[lane()], part[lane() + half]);
        barrier();
    }
    V all = part[0];
    barrier();
    return all;
}

// Words: reduction, threads per result, results, elements, pieces, elements of a piece, work-groups, type and address of the
// input, type and address of the result, walks of kept and of reduced axes, inverse of the pieces.
template <class C> PF_DEVICE void run_reduce(Table w) {
    typedef typename C::V V;
    const u32 threads = (u32)w[1];
    const i64 results = (i64)w[2], length = (i64)w[3], pieces = (i64)w[4], size = (i64)w[5], groups = (i64)w[6];
    const i64 step = threads == 1 ? groups * 256 : groups;
    for (i64 g = threads == 1 ? (i64)group() * 256 + (i64)lane() : (i64)group(); g < results * pieces; g += step) {
        i64 o = g;
        const i64 from = divide(o, pieces, w[13]) * size;
        const i64 to = length - from < size ? length : from + size;
        const i64 base = offset(w + w[11], 1, 0, o);
        const V all = team_of<V>((u32)w[0], threads, from, to, [&](i64 r) {
            return C::get((u32)w[7], w[8], base + offset(w + w[12], 1, 0, r));
        });
        if (threads == 1 || lane() == 0) C::put((u32)w[9], w[10], g, all);
    }
}

// Lines: kept and line walks of up to three operands. Words: threads per line, lines, stride over lines, length, the two walks.
struct Lines {
    Table w;
    u32 threads, operands;
    i64 o, length;
    PF_METHOD i64 at(u32 operand, i64 i) const {
        return offset(w + w[4], operands, operand, o) + offset(w + w[5], operands, operand, i);
    }
    PF_METHOD u32 place() const { return threads == 1 ? 0 : lane(); }
};
template <class Work> PF_DEVICE void each_line(Table w, u32 operands, Work work) {
    const u32 threads = (u32)w[0];
    for (i64 o = threads == 1 ? (i64)group() * 64 + (i64)lane() : (i64)group(); o < (i64)w[1]; o += (i64)w[2])
        work(Lines{w, threads, operands, o, (i64)w[3]});
}

// Words from 6 on: whether the logarithm is wanted, type and address of the input, type and address of the result.
template <class C> PF_DEVICE void run_softmax(Table w) {
    typedef typename C::V A;
    each_line(w, 2, [&](const Lines& line) {
        const auto load = [&](i64 i) { return C::get((u32)w[7], w[8], line.at(0, i)); };
        const bool logarithm = w[6] != 0;
        const A high = team_of<A>(2, line.threads, 0, line.length, load);
        const A sum = team_of<A>(0, line.threads, 0, line.length, [&](i64 i) { return exp(load(i) - high); });
        const A shift = logarithm ? log(sum) : (A)0;
        for (i64 i = line.place(); i < line.length; i += line.threads) {
            const A x = load(i) - high;
            C::put((u32)w[9], w[10], line.at(1, i), logarithm ? x - shift : exp(x) / sum);
        }
    });
}

// Words from 6 on: how many of weight and bias there are, epsilon, types and addresses of the three inputs, type and address of
// the result, the number of statistics and their addresses.
template <class C> PF_DEVICE void run_normalise(Table w) {
    typedef typename C::V A;
    each_line(w, 3, [&](const Lines& line) {
        const auto load = [&](i64 i) { return C::get((u32)w[8], w[9], line.at(0, i)); };
        const A epsilon = value<A>(w[7]);
        const A mean = team_of<A>(0, line.threads, 0, line.length, load) / (A)line.length;
        const A squares = team_of<A>(0, line.threads, 0, line.length, [&](i64 i) {
            const A x = load(i) - mean;
            return x * x;
        });
        const A inverse = (A)1 / sqrt(squares / (A)line.length + epsilon);
        for (i64 i = line.place(); i < line.length; i += line.threads) {
            A y = (load(i) - mean) * inverse;
            if (w[6] > 0) y = y * C::get((u32)w[10], w[11], line.at(1, i));
            if (w[6] > 1) y = y + C::get((u32)w[12], w[13], line.at(2, i));
            C::put((u32)w[14], w[15], line.o * line.length + i, y);
        }
        if (line.place() == 0) {
            const u32 type = sizeof(A) == 8 ? TWICE : SINGLE;
            if (w[16] > 0) C::put(type, w[17], line.o, mean);
            if (w[16] > 1) C::put(type, w[18], line.o, inverse);
        }
    });
}

// Words from 6 on: whether the largest is wanted, type and address of the input, address of the result.
template <class C> PF_DEVICE void run_arg_reduce(Table w) {
    typedef typename C::V V;
    each_line(w, 1, [&](const Lines& line) {
        const auto load = [&](i64 i) { return C::get((u32)w[7], w[8], line.at(0, i)); };
        const bool largest = w[6] != 0;
        const auto is_before = [&](V x, i64 i, V y, i64 j) { return largest ? before<true>(x, i, y, j) : before<false>(x, i, y, j); };
        i64 at = line.place();
        if (at >= line.length) at = 0;
        V best = load(at);
        for (i64 i = at + line.threads; i < line.length; i += line.threads) {
            const V x = load(i);
            if (is_before(x, i, best, at)) best = x, at = i;
        }
        if (line.threads > 1) {
            PF_SHARED V values[256];
            PF_SHARED i64 places[256];
            const u32 t = lane();
            values[t] = best;
            places[t] = at;
            barrier();
            for (u32 half = line.threads / 2; half > 0; half /= 2) {
                if (t < half && is_before(values[t + half], places[t + half], values[t], places[t])) {
                    values[t] = values[t + half];
                    places[t] = places[t + half];
                }
                barrier();
            }
            at = places[0];
            barrier();
        }
        if (line.place() == 0) put<I64>(w[9], line.o, at);
    });
}

// Words from 6 on: whether products are wanted, type and address of the input, type and address of the result.
template <class C> PF_DEVICE void run_cumulative(Table w) {
    typedef typename C::V V;
    each_line(w, 2, [&](const Lines& line) {
        V all = w[6] ? (V)1 : (V)0;
        for (i64 i = 0; i < line.length; i++) {
            const V x = C::get((u32)w[7], w[8], line.at(0, i));
            all = w[6] ? (V)(all * x) : (V)(all + x);
            C::put((u32)w[9], w[10], line.at(1, i), all);
        }
    });
}

// Words: tiles in all, work-groups, rows, columns, depth, tiles per row of tiles, tiles per column of tiles; types and addresses of
// left, right and result; walks of batch (two operands), rows, columns, and depth (two operands); inverses of the two numbers.
template <class C, class D> PF_DEVICE void run_contract(Table w) {
    typedef typename C::V V;
    constexpr i64 TILE = 32;
    const i64 rows = (i64)w[2], columns = (i64)w[3];
    for (i64 all = group(); all < (i64)w[0]; all += (i64)w[1]) {
        i64 g = all;
        const i64 tile_column = divide(g, w[5], w[17]), tile_row = divide(g, w[6], w[18]);
        const i64 left0 = offset(w + w[13], 2, 0, g), right0 = offset(w + w[13], 2, 1, g);
        contract<D, TILE, TILE, true, true>(
            rows, columns, (i64)0, (i64)w[4], tile_row * TILE, tile_column * TILE,
            [&](i64 i) { return offset(w + w[14], 1, 0, i); }, [&](i64 i) { return offset(w + w[15], 1, 0, i); },
            [&](i64 i, i64& l, i64& r) {
                l = offset(w + w[16], 2, 0, i);
                r = offset(w + w[16], 2, 1, i);
            },
            [&](i64 at) { return C::get((u32)w[7], w[8], left0 + at); },
            [&](i64 at) { return C::get((u32)w[9], w[10], right0 + at); },
            [&](i64 m, i64 n, V sum) { C::put((u32)w[11], w[12], (g * rows + m) * columns + n, sum); });
        barrier();
    }
}

PF_DEVICE u64 read_bytes(u32 bytes, u64 base, i64 at) {
    return bytes == 1 ? get<U8>(base, at) : bytes == 2 ? get<U16>(base, at) : bytes == 4 ? get<U32>(base, at) : get<U64>(base, at);
}
PF_DEVICE void write_bytes(u32 bytes, u64 base, i64 at, u64 x) {
    if (bytes == 1) return put<U8>(base, at, (u8)x);
    if (bytes == 2) return put<U16>(base, at, (u16)x);
    if (bytes == 4) return put<U32>(base, at, (u32)x);
    put<U64>(base, at, x);
}

// Words: elements, stride over them, bytes of an element, input, result, the frame's element, axes; for each axis its length, the
// inverse, its length inside, the first inside and its stride.
PF_DEVICE void run_pad(Table w) {
    for (i64 i = (i64)group() * 256 + (i64)lane(); i < (i64)w[0]; i += (i64)w[1]) {
        i64 rest = i, at = 0;
        bool inside = true;
#pragma clang loop unroll(disable)
        for (u32 axis = (u32)w[6]; axis > 0; axis--) {
            Table here = w + 7 + (axis - 1) * 5;
            const i64 place = (axis == 1 ? rest : divide(rest, here[0], here[1])) - (i64)here[3];
            inside = inside && place >= 0 && place < (i64)here[2];
            at += place * (i64)here[4];
        }
        write_bytes((u32)w[2], w[4], i, inside ? read_bytes((u32)w[2], w[3], at) : w[5]);
    }
}

// Words: elements, stride over them, bytes of an element, input, indices (i64), result, length and stride of the axis, and the walk
// of indices and input.
PF_DEVICE void run_gather(Table w) {
    for (i64 i = (i64)group() * 256 + (i64)lane(); i < (i64)w[0]; i += (i64)w[1]) {
        const i64 at = get<I64>(w[4], offset(w + w[8], 2, 0, i));
        const i64 from = offset(w + w[8], 2, 1, i) + at * (i64)w[7];
        write_bytes((u32)w[2], w[5], i, (u64)at < w[6] ? read_bytes((u32)w[2], w[3], from) : 0);
    }
}

// Words: lines, stride over them, indices (i64), source, result, the type of both, whether to add, indices in a line, the strides
// of the three along it, the length of the axis, and the walk of the three.
template <class C> PF_DEVICE void run_scatter(Table w) {
    typedef typename C::V V;
    const u32 type = (u32)w[5];
    for (i64 i = (i64)group() * 256 + (i64)lane(); i < (i64)w[0]; i += (i64)w[1]) {
        Table walk = w + w[12];
        const i64 indices = offset(walk, 3, 0, i), source = offset(walk, 3, 1, i), result = offset(walk, 3, 2, i);
        for (i64 j = 0; j < (i64)w[7]; j++) {
            const i64 at = get<I64>(w[2], indices + j * (i64)w[8]);
            if ((u64)at >= w[11]) continue;
            const V x = C::get(type, w[3], source + j * (i64)w[9]);
            const i64 to = result + at * (i64)w[10];
            C::put(type, w[4], to, w[6] ? (V)(C::get(type, w[4], to) + x) : x);
        }
    }
}

// Words: elements, stride over them, type, input, result, wide, the walk of the axes before the windowed ones; for each of three
// windowed axes its length, kernel, stride, the numbers to divide by length and stride, dilation, windows, and the strides of windows
// and of the kernel.
struct Window {
    Table here;
    i64 place, window, at;
    // Moves to element `k` of the kernel; returns whether a window has this element here.
    PF_METHOD bool reaches(i64 k, i64 base, bool wide) {
        const i64 far = place - k * (i64)here[5];
        window = far < 0 ? 0 : far;
        const bool whole = part(window, here[2], here[4], wide) == 0;
        at = base + window * (i64)here[7] + k * (i64)here[8];
        return far >= 0 && whole && window < (i64)here[6];
    }
};
template <class C> PF_DEVICE void run_fold(Table w) {
    typedef typename C::V V;
    const bool wide = w[5] != 0;
    for (i64 i = (i64)group() * 256 + (i64)lane(); i < (i64)w[0]; i += (i64)w[1]) {
        i64 rest = i;
        Window z = {w + 25, 0}, y = {w + 16, 0}, x = {w + 7, 0};
        z.place = part(rest, z.here[0], z.here[3], wide);
        y.place = part(rest, y.here[0], y.here[3], wide);
        x.place = part(rest, x.here[0], x.here[3], wide);
        const i64 base = offset(w + w[6], 1, 0, rest);
        V sum = 0;
        for (i64 k = 0; k < (i64)x.here[1]; k++) {
            if (!x.reaches(k, base, wide)) continue;
            for (i64 l = 0; l < (i64)y.here[1]; l++) {
                if (!y.reaches(l, x.at, wide)) continue;
                for (i64 m = 0; m < (i64)z.here[1]; m++)
                    if (z.reaches(m, y.at, wide)) sum = (V)(sum + C::get((u32)w[2], w[3], z.at));
            }
        }
        C::put((u32)w[2], w[4], i, sum);
    }
}

// Words: blocks, stride over them, elements, seed, offset, type and address of the result, distribution, low, high.
PF_DEVICE void run_random(Table w) {
    const i64 count = (i64)w[2];
    const u32 type = (u32)w[5];
    for (i64 b = (i64)group() * 256 + (i64)lane(); b < (i64)w[0]; b += (i64)w[1]) {
        const Four four = philox(w[3], w[4] + (u64)b);
        if (w[7] == 2) {
            const i64 low = (i64)w[8], high = (i64)w[9];
            if (b * 2 < count) write(type, w[6], b * 2, (u64)integer(four.w[0], four.w[1], low, high));
            if (b * 2 + 1 < count) write(type, w[6], b * 2 + 1, (u64)integer(four.w[2], four.w[3], low, high));
        } else if (type == TWICE) {
            Two two = {uniform_f64(four.w[0], four.w[1]), uniform_f64(four.w[2], four.w[3])};
            if (w[7] == 1) two = normal_pair_f64(four);
            if (b * 2 < count) put<F64>(w[6], b * 2, two.x);
            if (b * 2 + 1 < count) put<F64>(w[6], b * 2 + 1, two.y);
        } else {
            Two two = {0, 0};
#pragma unroll
            for (u32 n = 0; n < 4; n++) {
                float x = uniform_f32(four.w[n]);
                if (w[7] == 1) {
                    if (n % 2 == 0) two = normal_pair(four.w[n], four.w[n + 1]);
                    x = (float)(n % 2 == 0 ? two.x : two.y);
                } else {
                    x = type == HALF ? down_f16(x) : type == BFLOAT ? down_bf16(x) : x;
                }
                if (b * 4 + n < count) Floats::put(type, w[6], b * 4 + n, x);
            }
        }
    }
}

// Sorting. Words: type, descending, input, its stride, number of results, values, indices, their stride, lines, stride over lines,
// length, the walk of input and results, the inverse of the length; for long lines also the padded length, its inverse, keys,
// places, and a pass's two sizes.
struct Sorting {
    Table w;
    i64 input, output;
    PF_MEMBER u64 key_of(u32 type, bool descending, u64 x) {
        if (type >= HALF && type <= SINGLE) return descending ? Key<true>::of(value<float>(x)) : Key<false>::of(value<float>(x));
        if (type == TWICE) return descending ? Key<true>::of(value<double>(x)) : Key<false>::of(value<double>(x));
        const u64 key = type >= INT8 ? x ^ 1ul << 63 : x;
        return descending ? ~key : key;
    }
    PF_METHOD Sorting(Table w, i64 line) : w(w) {
        input = offset(w + w[11], 2, 0, line);
        output = offset(w + w[11], 2, 1, line);
    }
    PF_METHOD u64 get(i64 i) const { return read((u32)w[0], w[2], input + i * (i64)w[3]); }
    PF_METHOD u64 key(i64 i) const { return key_of((u32)w[0], w[1] != 0, get(i)); }
    PF_METHOD void set(i64 i, u32 place) const {
        write((u32)w[0], w[5], output + i * (i64)w[7], get(place));
        if (w[4] > 1) put<I64>(w[6], output + i * (i64)w[7], (i64)place);
    }
};
template <int P, int B> PF_DEVICE void run_sort(Table w) {
    for (i64 o = group(); o < (i64)w[8]; o += (i64)w[9]) {
        const Sorting it(w, o);
        sort_line<P, B>((u32)w[10], [&](u32 i) { return it.key(i); }, [&](u32 i, u32 place) { it.set(i, place); });
    }
}
PF_DEVICE void run_sort_begin(Table w) {
    for (i64 n = (i64)group() * 256 + (i64)lane(); n < (i64)(w[8] * w[13]); n += (i64)w[9]) {
        i64 o = n;
        const i64 i = divide(o, w[13], w[14]);
        put<U64>(w[15], n, i < (i64)w[10] ? Sorting(w, o).key(i) : ~0ul);
        put<U32>(w[16], n, (u32)i);
    }
}
PF_DEVICE void run_sort_pass(Table w) {
    const i64 size = (i64)w[13], part = (i64)w[17], far = (i64)w[18];
    for (i64 n = (i64)group() * 256 + (i64)lane(); n < (i64)w[8] * size / 2; n += (i64)w[9]) {
        const i64 i = (n & ~(far - 1)) * 2 + (n & (far - 1)), j = i + far;
        const u64 key_i = get<U64>(w[15], i), key_j = get<U64>(w[15], j);
        const u32 place_i = get<U32>(w[16], i), place_j = get<U32>(w[16], j);
        if (behind(key_i, place_i, key_j, place_j) != ((i & (size - 1) & part) == 0)) continue;
        put<U64>(w[15], i, key_j);
        put<U64>(w[15], j, key_i);
        put<U32>(w[16], i, place_j);
        put<U32>(w[16], j, place_i);
    }
}
PF_DEVICE void run_sort_end(Table w) {
    for (i64 n = (i64)group() * 256 + (i64)lane(); n < (i64)(w[8] * w[10]); n += (i64)w[9]) {
        i64 o = n;
        const i64 i = divide(o, w[10], w[12]);
        Sorting(w, o).set(i, get<U32>(w[16], o * (i64)w[13] + i));
    }
}

}  // namespace pf

#define PF_FLOATS(least, most, name)                            \
    PF_RUN(least, most, name##_float, run_##name<pf::Floats>)   \
    PF_RUN(least, most, name##_double, run_##name<pf::Doubles>)
#define PF_WHOLES(least, most, name)                                \
    PF_RUN(least, most, name##_signed, run_##name<pf::Signed>)      \
    PF_RUN(least, most, name##_unsigned, run_##name<pf::Unsigned>)
#define PF_ANY(least, most, name) \
    PF_FLOATS(least, most, name)  \
    PF_RUN(least, most, name##_unsigned, run_##name<pf::Unsigned>)
PF_FLOATS(64, 256, reduce)
PF_WHOLES(64, 256, reduce)
PF_FLOATS(64, 256, arg_reduce)
PF_WHOLES(64, 256, arg_reduce)
PF_FLOATS(64, 256, softmax)
PF_FLOATS(64, 256, normalise)
PF_ANY(64, 64, cumulative)
PF_ANY(256, 256, scatter)
PF_ANY(256, 256, fold)
PF_RUN(256, 256, contract_float, run_contract<pf::Floats, pf::F32>)
PF_RUN(256, 256, contract_double, run_contract<pf::Doubles, pf::F64>)
PF_RUN(256, 256, contract_unsigned, run_contract<pf::Unsigned, pf::U64>)
PF_RUN(256, 256, pad, run_pad)
PF_RUN(256, 256, gather, run_gather)
PF_RUN(256, 256, random, run_random)
PF_RUN(64, 64, sort_64, run_sort<64, 64>)
PF_RUN(256, 256, sort_1024, run_sort<1024, 256>)
PF_RUN(256, 256, sort_begin, run_sort_begin)
PF_RUN(256, 256, sort_pass, run_sort_pass)
PF_RUN(256, 256, sort_end, run_sort_end)

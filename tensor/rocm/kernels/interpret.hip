// An interpreter of programs, for GPUs without a run-time compiler: built ahead, with the functions that generated kernels use and
// so with the same bits. Its program, the places of its operands and all sizes are argument words; src/interpret writes them.
namespace pf {

// Argument words, read where they are: a copy with variable indices would be a copy to memory of each thread.
typedef const __attribute__((address_space(4))) u64* Table;
// The first word is zero if the others follow, else the address of the table: more words than arguments were written there by
// `pf_run_fill`.
PF_DEVICE Table table() {
    Table here = (Table)__builtin_amdgcn_kernarg_segment_ptr();
    return here[0] ? (Table)here[0] : here + 1;
}

// In the order of tensor-core's `DType`.
enum Type { BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, HALF, BFLOAT, SINGLE, TWICE, COMPLEX };

// Values are kept as words: floats of at most 32 bits as a float's bits, integers extended by their sign or by zeros.
template <class V> PF_DEVICE V value(u64 word) { return (V)word; }
template <> PF_DEVICE bool value<bool>(u64 word) { return word != 0; }
template <> PF_DEVICE float value<float>(u64 word) { return bits<float>((u32)word); }
template <> PF_DEVICE double value<double>(u64 word) { return bits<double>(word); }
template <> PF_DEVICE c64 value<c64>(u64 word) { return bits<c64>(word); }
PF_DEVICE u64 word(bool x) { return x; }
PF_DEVICE u64 word(u64 x) { return x; }
PF_DEVICE u64 word(i64 x) { return (u64)x; }
PF_DEVICE u64 word(float x) { return bits<u32>(x); }
PF_DEVICE u64 word(double x) { return bits<u64>(x); }
PF_DEVICE u64 word(c64 x) { return bits<u64>(x); }

PF_DEVICE u64 read(u32 type, u64 base, i64 at) {
    switch (type) {
        case BOOL: return get<Bool>(base, at);
        case UINT8: return get<U8>(base, at);
        case UINT16: return get<U16>(base, at);
        case INT8: return (u64)(i64)get<I8>(base, at);
        case INT16: return (u64)(i64)get<I16>(base, at);
        case INT32: return (u64)(i64)get<I32>(base, at);
        case HALF: return word(get<F16>(base, at));
        case BFLOAT: return word(get<BF16>(base, at));
        case UINT32:
        case SINGLE: return get<U32>(base, at);
        default: return get<U64>(base, at);
    }
}
PF_DEVICE void write(u32 type, u64 base, i64 at, u64 x) {
    switch (type) {
        case BOOL: return put<Bool>(base, at, x != 0);
        case UINT8:
        case INT8: return put<U8>(base, at, (u8)x);
        case UINT16:
        case INT16: return put<U16>(base, at, (u16)x);
        case HALF: return put<F16>(base, at, value<float>(x));
        case BFLOAT: return put<BF16>(base, at, value<float>(x));
        case UINT32:
        case INT32:
        case SINGLE: return put<U32>(base, at, (u32)x);
        default: return put<U64>(base, at, x);
    }
}

// Conversions between types, as `cast` in src/expression.rs writes them.
template <class F> PF_DEVICE u64 from_float(u32 to, F x) {
    switch (to) {
        case BOOL: return x != 0;
        case UINT8: return truncated<u8>(x);
        case UINT16: return truncated<u16>(x);
        case UINT32: return truncated<u32>(x);
        case UINT64: return truncated<u64>(x);
        case INT8: return (u64)(i64)truncated<i8>(x);
        case INT16: return (u64)(i64)truncated<i16>(x);
        case INT32: return (u64)(i64)truncated<i32>(x);
        case INT64: return (u64)truncated<i64>(x);
        case HALF: return word(round_f16(x));
        case BFLOAT: return word(round_bf16((float)x));
        case SINGLE: return word((float)x);
        case TWICE: return word((double)x);
        default: return word(c64{(float)x, 0.0f});
    }
}
template <class W> PF_DEVICE u64 from_whole(u32 to, W x) {
    switch (to) {
        case BOOL: return x != 0;
        case UINT8: return (u8)x;
        case UINT16: return (u16)x;
        case UINT32: return (u32)x;
        case INT8: return (u64)(i64)(i8)x;
        case INT16: return (u64)(i64)(i16)x;
        case INT32: return (u64)(i64)(i32)x;
        case UINT64:
        case INT64: return (u64)x;
        case HALF: return word(round_f16((float)x));
        case BFLOAT: return word(round_bf16((float)x));
        case SINGLE: return word((float)x);
        case TWICE: return word((double)x);
        default: return word(c64{(float)x, 0.0f});
    }
}
PF_DEVICE u64 convert(u32 from, u32 to, u64 x) {
    if (from >= HALF && from <= SINGLE) return from_float(to, value<float>(x));
    if (from == TWICE) return from_float(to, value<double>(x));
    if (from == COMPLEX) {
        const c64 both = value<c64>(x);
        if (to == COMPLEX) return x;
        return to == BOOL ? (u64)(both.x != 0 || both.y != 0) : from_float(to, (float)both.x);
    }
    return from >= INT8 ? from_whole(to, (i64)x) : from_whole(to, x);
}

// Returns the remainder of a division by a length, below 2^52; `rest` becomes the quotient. `inverse` has the bits of 1 / length:
// the quotient by it is off by one at most.
PF_DEVICE i64 divide(i64& rest, u64 length, u64 inverse) {
    i64 quotient = (i64)((double)rest * bits<double>(inverse)), left = rest - quotient * (i64)length;
    if (left < 0) quotient--, left += (i64)length;
    if (left >= (i64)length) quotient++, left -= (i64)length;
    rest = quotient;
    return left;
}
// The same with the number of `split`, if 32 bits are enough.
PF_DEVICE i64 part(i64& rest, u64 length, u64 number, bool wide) {
    if (wide) return divide(rest, length, number);
    i32 narrow = (i32)rest;
    const i64 left = split(narrow, length, number);
    rest = narrow;
    return left;
}
// Offsets: a walk is a rank (with bit 32 set if 32 bits are too few), and for each axis its length, a number to divide by it, and
// its strides in `operands` operands. That number is the one of `split`, or the inverse if 32 bits are too few.
PF_DEVICE i64 offset(Table walk, u32 operands, u32 operand, i64 rest) {
    const bool wide = walk[0] >> 32 != 0;
    i64 sum = 0;
#pragma clang loop unroll(disable)
    for (u32 axis = (u32)walk[0]; axis > 0; axis--) {
        Table here = walk + 1 + (axis - 1) * (2 + operands);
        const i64 place = axis > 1 ? part(rest, here[0], here[1], wide) : rest;
        sum += place * (i64)here[2 + operand];
    }
    return sum;
}
// The index along one axis: the length of the axes within, its length, and the inverses of both are at `here`.
PF_DEVICE i64 coordinate(Table here, i64 index) {
    divide(index, here[0], here[1]);
    return divide(index, here[2], here[3]);
}

template <class T> PF_DEVICE u64 shifted_left(T x, T y, u32 width) { return (u64)y >= width ? 0 : (u64)x << (u64)y; }
template <class T> PF_DEVICE T shifted_right(T x, T y, u32 width) { return (u64)y >= width ? (x < (T)0 ? (T)-1 : (T)0) : (T)(x >> y); }

// In the order of tensor-core's `Unary` and `Binary`; a test in src/interpret/code.rs compares them.
enum Unary {
    UNARY_Neg, UNARY_Abs, UNARY_Sign, UNARY_Not, UNARY_BitNot, UNARY_Sqrt, UNARY_Rsqrt, UNARY_Recip, UNARY_Exp, UNARY_Exp2,
    UNARY_Expm1, UNARY_Log, UNARY_Log2, UNARY_Log10, UNARY_Log1p, UNARY_Sin, UNARY_Cos, UNARY_Tan, UNARY_Asin, UNARY_Acos,
    UNARY_Atan, UNARY_Sinh, UNARY_Cosh, UNARY_Tanh, UNARY_Asinh, UNARY_Acosh, UNARY_Atanh, UNARY_Erf, UNARY_Sigmoid, UNARY_Floor,
    UNARY_Ceil, UNARY_Trunc, UNARY_Round, UNARY_IsNan, UNARY_IsInf, UNARY_Real, UNARY_Imag, UNARY_Conj,
};
enum Binary {
    BINARY_Add, BINARY_Sub, BINARY_Mul, BINARY_Div, BINARY_FloorDiv, BINARY_Rem, BINARY_Pow, BINARY_Max, BINARY_Min, BINARY_Atan2,
    BINARY_Hypot, BINARY_Copysign, BINARY_Nextafter, BINARY_Logaddexp, BINARY_And, BINARY_Or, BINARY_Xor, BINARY_Shl, BINARY_Shr,
    BINARY_Eq, BINARY_Ne, BINARY_Lt, BINARY_Le, BINARY_Gt, BINARY_Ge, BINARY_Complex, BINARY_Within,
};
// Operation codes: one of these, or a kind of operands in the bits from 6 on and a function below.
enum Operation { LOAD, CONSTANT, INDEX, CONVERT, SELECT, WITHIN, STORE };
enum Kind { SPECIAL, UNARY_FLOAT, UNARY_DOUBLE, UNARY_SIGNED, UNARY_UNSIGNED, UNARY_COMPLEX,
            BINARY_FLOAT, BINARY_DOUBLE, BINARY_SIGNED, BINARY_UNSIGNED, BINARY_COMPLEX };
enum Mode { STILL, LINEAR, STRIDED };

// Every case handles all elements of a thread, so that fetching and decoding an instruction is done once for them.
#define PF_EACH _Pragma("clang loop unroll(disable)") for (u32 u = 0; u < all; u += 64)
#define PF_ONE(V, result)                       \
    PF_EACH {                                   \
        const V x = value<V>(slots[left + u]);  \
        slots[to + u] = word(result);           \
    }                                           \
    break;
#define PF_TWO(V, result)                                                               \
    PF_EACH {                                                                           \
        const V x = value<V>(slots[left + u]), y = value<V>(slots[right + u]);          \
        slots[to + u] = word(result);                                                   \
    }                                                                                   \
    break;
#define PF_F1(name, function)                                              \
    case UNARY_FLOAT << 6 | UNARY_##name: PF_ONE(float, function(x))       \
    case UNARY_DOUBLE << 6 | UNARY_##name: PF_ONE(double, function(x))
#define PF_W1(name, function)                                              \
    case UNARY_SIGNED << 6 | UNARY_##name: PF_ONE(i64, function(x))        \
    case UNARY_UNSIGNED << 6 | UNARY_##name: PF_ONE(u64, function(x))
#define PF_F2(name, result)                                                \
    case BINARY_FLOAT << 6 | BINARY_##name: PF_TWO(float, result)          \
    case BINARY_DOUBLE << 6 | BINARY_##name: PF_TWO(double, result)
#define PF_W2(name, result)                                                \
    case BINARY_SIGNED << 6 | BINARY_##name: PF_TWO(i64, result)           \
    case BINARY_UNSIGNED << 6 | BINARY_##name: PF_TWO(u64, result)
#define PF_A2(name, result) PF_F2(name, result) PF_W2(name, result)

// Words: elements, work-groups, elements per thread, first and end of the instructions, the walk and the number of its operands.
// An instruction: operation, type, target, two sources (8 bits each except 16 for the operation), and 16 bits for a third source
// or the place of a word.
PF_DEVICE void run_map(Table w) {
    PF_SHARED u64 slots[64 * 64];
    const i64 count = (i64)w[0];
    const u32 rounds = (u32)w[2], all = rounds * 64, end = (u32)w[4], operands = (u32)w[6];
    Table walk = w + w[5];
    for (i64 block = group(); block * (i64)all < count; block += (i64)w[1]) {
        const i64 first = block * (i64)all + (i64)lane();
#pragma clang loop unroll(disable)
        for (u32 next = (u32)w[3]; next < end; next++) {
            const u64 code = w[next];
            const u32 type = (u32)(code >> 16) & 0xFF, more = (u32)(code >> 48);
            const u32 a = (u32)(code >> 24) & 0xFF, b = (u32)(code >> 32) & 0xFF, c = (u32)(code >> 40) & 0xFF;
            const u32 to = a * all + lane(), left = b * all + lane(), right = c * all + lane();
            switch ((u32)code & 0xFFFF) {
                case LOAD:
                    PF_EACH {
                        const i64 i = first + u;
                        if (i < count) slots[to + u] = read(type, w[more], b == STILL ? 0 : b == LINEAR ? i : offset(walk, operands, c, i));
                    }
                    break;
                case STORE:
                    PF_EACH {
                        const i64 i = first + u;
                        if (i < count) write(type, w[more], a == LINEAR ? i : offset(walk, operands, c, i), slots[left + u]);
                    }
                    break;
                case CONSTANT:
                    PF_EACH slots[to + u] = w[more];
                    break;
                case INDEX:
                    PF_EACH slots[to + u] = (u64)coordinate(w + more, first + u);
                    break;
                case CONVERT:
                    PF_EACH slots[to + u] = convert(more, type, slots[left + u]);
                    break;
                case SELECT:
                    PF_EACH {
                        const u64 x = slots[right + u], y = slots[more * all + lane() + u];
                        slots[to + u] = slots[left + u] ? x : y;
                    }
                    break;
                case WITHIN:
                    PF_EACH if (first + u < count)
                        slots[to + u] = (u64)within((i64)slots[left + u], (i64)slots[right + u], w[more]);
                    break;
                PF_F1(Neg, neg) PF_F1(Abs, abs) PF_F1(Sign, sign) PF_F1(Not, logical_not) PF_F1(Sqrt, sqrt) PF_F1(Rsqrt, rsqrt)
                PF_F1(Recip, recip) PF_F1(Exp, exp) PF_F1(Exp2, exp2) PF_F1(Expm1, expm1) PF_F1(Log, log) PF_F1(Log2, log2)
                PF_F1(Log10, log10) PF_F1(Log1p, log1p) PF_F1(Sin, sin) PF_F1(Cos, cos) PF_F1(Tan, tan) PF_F1(Asin, asin)
                PF_F1(Acos, acos) PF_F1(Atan, atan) PF_F1(Sinh, sinh) PF_F1(Cosh, cosh) PF_F1(Tanh, tanh) PF_F1(Asinh, asinh)
                PF_F1(Acosh, acosh) PF_F1(Atanh, atanh) PF_F1(Erf, erf) PF_F1(Sigmoid, sigmoid) PF_F1(Floor, floor)
                PF_F1(Ceil, ceil) PF_F1(Trunc, trunc) PF_F1(Round, round) PF_F1(IsNan, is_nan) PF_F1(IsInf, is_inf)
                PF_W1(Neg, neg) PF_W1(Abs, abs) PF_W1(Sign, sign) PF_W1(Not, logical_not) PF_W1(BitNot, bit_not)
                PF_A2(Add, add(x, y)) PF_A2(Sub, sub(x, y)) PF_A2(Mul, mul(x, y)) PF_A2(Div, div(x, y))
                PF_A2(FloorDiv, floor_div(x, y)) PF_A2(Rem, rem(x, y)) PF_A2(Pow, pow(x, y)) PF_A2(Max, max(x, y))
                PF_A2(Min, min(x, y)) PF_A2(Eq, x == y) PF_A2(Ne, x != y) PF_A2(Lt, x < y) PF_A2(Le, x <= y) PF_A2(Gt, x > y)
                PF_A2(Ge, x >= y)
                PF_F2(Atan2, atan2(x, y)) PF_F2(Hypot, hypot(x, y)) PF_F2(Copysign, copysign(x, y))
                PF_F2(Nextafter, nextafter(x, y)) PF_F2(Logaddexp, logaddexp(x, y)) PF_F2(Complex, (c64{(float)x, (float)y}))
                PF_W2(And, x & y) PF_W2(Or, x | y) PF_W2(Xor, x ^ y) PF_W2(Shl, shifted_left(x, y, more))
                PF_W2(Shr, shifted_right(x, y, more))
                case UNARY_COMPLEX << 6 | UNARY_Neg: PF_ONE(c64, -x)
                case UNARY_COMPLEX << 6 | UNARY_Abs: PF_ONE(c64, hypot(x.x, x.y))
                case UNARY_COMPLEX << 6 | UNARY_Real: PF_ONE(c64, (float)x.x)
                case UNARY_COMPLEX << 6 | UNARY_Imag: PF_ONE(c64, (float)x.y)
                case UNARY_COMPLEX << 6 | UNARY_Conj: PF_ONE(c64, (c64{x.x, -x.y}))
                case BINARY_COMPLEX << 6 | BINARY_Add: PF_TWO(c64, x + y)
                case BINARY_COMPLEX << 6 | BINARY_Sub: PF_TWO(c64, x - y)
                case BINARY_COMPLEX << 6 | BINARY_Mul: PF_TWO(c64, (c64{x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x}))
                case BINARY_COMPLEX << 6 | BINARY_Div: PF_TWO(c64, divided(x, y))
                case BINARY_COMPLEX << 6 | BINARY_Eq: PF_TWO(c64, x.x == y.x && x.y == y.y)
                case BINARY_COMPLEX << 6 | BINARY_Ne: PF_TWO(c64, x.x != y.x || x.y != y.y)
                default: break;
            }
        }
    }
}

// Writes words to memory: the table of a later launch. Words: their number, the address, the words.
PF_DEVICE void run_fill(Table w) {
    for (u32 i = lane(); i < (u32)w[0]; i += 64) ((PF_GLOBAL u64*)w[1])[i] = w[2 + i];
}

}  // namespace pf

#define PF_RUN(least, most, name, ...)                                                                                        \
    extern "C" __attribute__((global, amdgpu_flat_work_group_size(least, most))) void pf_run_##name(const pf::Words<96>) { \
        pf::__VA_ARGS__(pf::table());                                                                                         \
    }
PF_RUN(64, 64, map, run_map)
PF_RUN(64, 64, fill, run_fill)

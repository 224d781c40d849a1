// The functions used by programs, under the names that the generator emits.
namespace pf {

#define PF_FLOAT(name, single, twice)                     \
    PF_DEVICE float name(float x) { return single(x); }   \
    PF_DEVICE double name(double x) { return twice(x); }
#define PF_LIBRARY(name) PF_FLOAT(name, __ocml_##name##_f32, __ocml_##name##_f64)
#define PF_LIBRARY2(name)                                                             \
    PF_DEVICE float name(float x, float y) { return __ocml_##name##_f32(x, y); }      \
    PF_DEVICE double name(double x, double y) { return __ocml_##name##_f64(x, y); }

PF_LIBRARY(exp) PF_LIBRARY(exp2) PF_LIBRARY(expm1) PF_LIBRARY(log) PF_LIBRARY(log2) PF_LIBRARY(log10) PF_LIBRARY(log1p)
PF_LIBRARY(sin) PF_LIBRARY(cos) PF_LIBRARY(tan) PF_LIBRARY(asin) PF_LIBRARY(acos) PF_LIBRARY(atan)
PF_LIBRARY(sinh) PF_LIBRARY(cosh) PF_LIBRARY(tanh) PF_LIBRARY(asinh) PF_LIBRARY(acosh) PF_LIBRARY(atanh) PF_LIBRARY(erf)
PF_LIBRARY2(atan2) PF_LIBRARY2(hypot) PF_LIBRARY2(fmod) PF_LIBRARY2(nextafter)
PF_FLOAT(sqrt, __builtin_sqrtf, __builtin_sqrt)
PF_FLOAT(floor, __builtin_floorf, __builtin_floor)
PF_FLOAT(ceil, __builtin_ceilf, __builtin_ceil)
PF_FLOAT(trunc, __builtin_truncf, __builtin_trunc)
PF_FLOAT(round, __builtin_rintf, __builtin_rint)
template <class T> PF_DEVICE T floor(T x) { return x; }
template <class T> PF_DEVICE T ceil(T x) { return x; }
template <class T> PF_DEVICE T trunc(T x) { return x; }
template <class T> PF_DEVICE T round(T x) { return x; }
PF_DEVICE float copysign(float x, float y) { return __builtin_copysignf(x, y); }
PF_DEVICE double copysign(double x, double y) { return __builtin_copysign(x, y); }

template <class T> PF_DEVICE T rsqrt(T x) { return (T)1 / sqrt(x); }
template <class T> PF_DEVICE T recip(T x) { return (T)1 / x; }
template <class T> PF_DEVICE T sigmoid(T x) { return (T)1 / ((T)1 + exp(-x)); }
template <class T> PF_DEVICE T neg(T x) { return -x; }
PF_DEVICE float abs(float x) { return __builtin_fabsf(x); }
PF_DEVICE double abs(double x) { return __builtin_fabs(x); }
template <class T> PF_DEVICE T abs(T x) { return x < (T)0 ? (T)-x : x; }
template <class T> PF_DEVICE T sign(T x) { return x != x ? x : (T)((x > (T)0) - (x < (T)0)); }
template <class T> PF_DEVICE bool is_nan(T x) { return x != x; }
PF_DEVICE bool is_inf(float x) { return abs(x) == __builtin_inff(); }
PF_DEVICE bool is_inf(double x) { return abs(x) == __builtin_inf(); }
template <class T> PF_DEVICE bool is_inf(T) { return false; }
template <class T> PF_DEVICE bool logical_not(T x) { return x == (T)0; }
PF_DEVICE bool bit_not(bool x) { return !x; }
template <class T> PF_DEVICE T bit_not(T x) { return (T)~x; }

template <class T> PF_DEVICE T add(T x, T y) { return (T)(x + y); }
template <class T> PF_DEVICE T sub(T x, T y) { return (T)(x - y); }
template <class T> PF_DEVICE T mul(T x, T y) { return (T)(x * y); }
PF_DEVICE float div(float x, float y) { return x / y; }
PF_DEVICE double div(double x, double y) { return x / y; }
template <class T> PF_DEVICE T div(T x, T y) {
    if (y == (T)0) return 0;
    if ((T)-1 < (T)0 && y == (T)-1) return (T)((T)0 - x);
    return (T)(x / y);
}
template <class T> PF_DEVICE T float_rem(T x, T y) {
    T m = fmod(x, y);
    return m != (T)0 && (y < (T)0) != (m < (T)0) ? m + y : m;
}
PF_DEVICE float rem(float x, float y) { return float_rem(x, y); }
PF_DEVICE double rem(double x, double y) { return float_rem(x, y); }
template <class T> PF_DEVICE T rem(T x, T y) {
    if (y == (T)0) return 0;
    if ((T)-1 < (T)0 && y == (T)-1) return 0;
    T m = (T)(x % y);
    return m != (T)0 && (y < (T)0) != (m < (T)0) ? (T)(m + y) : m;
}
template <class T> PF_DEVICE T float_floor_div(T x, T y) {
    if (y == (T)0) return x / y;
    T m = fmod(x, y);
    T quotient = (x - m) / y;
    if (m != (T)0 && (y < (T)0) != (m < (T)0)) quotient -= (T)1;
    if (quotient == (T)0) return copysign((T)0, x / y);
    T whole = floor(quotient);
    return quotient - whole > (T)0.5 ? whole + (T)1 : whole;
}
PF_DEVICE float floor_div(float x, float y) { return float_floor_div(x, y); }
PF_DEVICE double floor_div(double x, double y) { return float_floor_div(x, y); }
template <class T> PF_DEVICE T floor_div(T x, T y) {
    T quotient = div(x, y);
    return y != (T)0 && (T)(quotient * y) != x && (x < (T)0) != (y < (T)0) ? (T)(quotient - 1) : quotient;
}
PF_DEVICE float pow(float x, float y) { return __ocml_pow_f32(x, y); }
PF_DEVICE double pow(double x, double y) { return __ocml_pow_f64(x, y); }
template <class T> PF_DEVICE T pow(T x, T y) {
    if (y < (T)0) return x == (T)1 ? (T)1 : x == (T)-1 ? ((y & 1) ? (T)-1 : (T)1) : (T)0;
    T result = 1;
    for (; y != (T)0; y = (T)(y >> 1)) {
        if (y & 1) result = (T)((u64)result * (u64)x);
        x = (T)((u64)x * (u64)x);
    }
    return result;
}
template <class T> PF_DEVICE T max(T x, T y) { return x != x ? x : y != y ? y : x > y ? x : y; }
template <class T> PF_DEVICE T min(T x, T y) { return x != x ? x : y != y ? y : x < y ? x : y; }
template <class T> PF_DEVICE T logaddexp(T x, T y) {
    if (x == y) return x + (T)0.6931471805599453;
    T high = max(x, y), low = min(x, y);
    return high + log1p(exp(low - high));
}
template <class T> PF_DEVICE T bit_and(T x, T y) { return (T)(x & y); }
template <class T> PF_DEVICE T bit_or(T x, T y) { return (T)(x | y); }
template <class T> PF_DEVICE T bit_xor(T x, T y) { return (T)(x ^ y); }
template <class T> PF_DEVICE T shl(T x, T y) { return (u64)y >= sizeof(T) * 8 ? (T)0 : (T)((u64)x << (u64)y); }
template <class T> PF_DEVICE T shr(T x, T y) {
    return (u64)y >= sizeof(T) * 8 ? (x < (T)0 ? (T)-1 : (T)0) : (T)(x >> y);
}

PF_DEVICE c64 divided(c64 x, c64 y) {
    // Smith's method, so that intermediate results do not overflow.
    if (abs(y.x) >= abs(y.y)) {
        float ratio = y.y / y.x, scale = y.x + y.y * ratio;
        return c64{(x.x + x.y * ratio) / scale, (x.y - x.x * ratio) / scale};
    }
    float ratio = y.x / y.y, scale = y.x * ratio + y.y;
    return c64{(x.x * ratio + x.y) / scale, (x.y * ratio - x.x) / scale};
}

}  // namespace pf

// The base of every kernel: element types, arithmetic on them, indices. It includes nothing, so that it compiles quickly and with
// every compiler that supports the target.
//
// All kernels take one argument, an array of 64-bit words. Its meaning is private to a kernel and the Rust code that launches it.
#pragma clang fp contract(off)
#define PF_DEVICE static __attribute__((device, always_inline)) inline
#define PF_MEMBER static __attribute__((device, always_inline))
#define PF_METHOD __attribute__((device, always_inline))
#define PF_KERNEL(threads) extern "C" __attribute__((global, amdgpu_flat_work_group_size(threads, threads)))
#define PF_SHARED static __attribute__((shared))
#define PF_GLOBAL __attribute__((address_space(1)))

#define PF_OCML(name)                                                                  \
    extern "C" __attribute__((device)) __attribute__((const)) float __ocml_##name##_f32(float); \
    extern "C" __attribute__((device)) __attribute__((const)) double __ocml_##name##_f64(double);
#define PF_OCML2(name)                                                                        \
    extern "C" __attribute__((device)) __attribute__((const)) float __ocml_##name##_f32(float, float); \
    extern "C" __attribute__((device)) __attribute__((const)) double __ocml_##name##_f64(double, double);
#define PF_OCML_PURE(name)                                                            \
    extern "C" __attribute__((device)) __attribute__((pure)) float __ocml_##name##_f32(float); \
    extern "C" __attribute__((device)) __attribute__((pure)) double __ocml_##name##_f64(double);

PF_OCML_PURE(exp) PF_OCML_PURE(exp2) PF_OCML_PURE(expm1) PF_OCML_PURE(log) PF_OCML_PURE(log2) PF_OCML_PURE(log10)
PF_OCML_PURE(log1p) PF_OCML(sin) PF_OCML(cos) PF_OCML(tan) PF_OCML(asin) PF_OCML(acos) PF_OCML(atan)
PF_OCML_PURE(sinh) PF_OCML_PURE(cosh) PF_OCML(tanh) PF_OCML(asinh) PF_OCML(acosh) PF_OCML(atanh) PF_OCML_PURE(erf)
PF_OCML2(atan2) PF_OCML2(hypot) PF_OCML2(fmod) PF_OCML2(nextafter)
extern "C" __attribute__((device)) __attribute__((pure)) float __ocml_pow_f32(float, float);
extern "C" __attribute__((device)) __attribute__((pure)) double __ocml_pow_f64(double, double);

namespace pf {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long i64;
typedef float f32;
typedef double f64;
typedef float c64 __attribute__((ext_vector_type(2)));

template <int N> struct Words {
    u64 w[N];
};

PF_DEVICE u32 lane() { return __builtin_amdgcn_workitem_id_x(); }
PF_DEVICE u32 group() { return __builtin_amdgcn_workgroup_id_x(); }
PF_DEVICE void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
// Returns the index if it is from zero to below the length (the lower 48 bits of `bound`), else minus one. The first index out of
// bounds is recorded with its bound.
PF_DEVICE i64 within(i64 index, i64 bound, u64 faults) {
    if ((u64)index < ((u64)bound & 0xFFFFFFFFFFFFul)) return index;
    PF_GLOBAL u64* to = (PF_GLOBAL u64*)faults;
    if (__hip_atomic_exchange((PF_GLOBAL u32*)to, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) == 0u) {
        to[1] = (u64)index;
        to[2] = (u64)bound;
    }
    return -1;
}
template <class T, class F> PF_DEVICE T bits(F from) { return __builtin_bit_cast(T, from); }

PF_DEVICE float round_f16(float x) { return (float)(_Float16)x; }
PF_DEVICE float round_f16(double x) { return (float)(_Float16)x; }
PF_DEVICE u16 to_bf16(float x) {
    u32 b = bits<u32>(x);
    if ((b & 0x7FFFFFFFu) > 0x7F800000u) return (u16)((b >> 16) | 0x40u);
    return (u16)((b + 0x7FFFu + ((b >> 16) & 1u)) >> 16);
}
PF_DEVICE float from_bf16(u16 x) { return bits<float>((u32)x << 16); }
PF_DEVICE float round_bf16(float x) { return from_bf16(to_bf16(x)); }

// Element types: S is the storage type, V the type of computation, A the accumulator.
template <class T> struct Plain {
    typedef T S;
    typedef T V;
    typedef T A;
    PF_MEMBER V load(S s) { return s; }
    PF_MEMBER S store(V v) { return v; }
};
struct U8 : Plain<u8> {};
struct U16 : Plain<u16> {};
struct U32 : Plain<u32> {};
struct U64 : Plain<u64> {};
struct I8 : Plain<i8> {};
struct I16 : Plain<i16> {};
struct I32 : Plain<i32> {};
struct I64 : Plain<i64> {};
struct F32 : Plain<f32> {};
struct F64 : Plain<f64> {};
struct C64 : Plain<c64> {};
struct Bool {
    typedef u8 S;
    typedef bool V;
    typedef bool A;
    PF_MEMBER V load(S s) { return s != 0; }
    PF_MEMBER S store(V v) { return v ? 1 : 0; }
};
struct F16 {
    typedef _Float16 S;
    typedef float V;
    typedef float A;
    PF_MEMBER V load(S s) { return (float)s; }
    PF_MEMBER S store(V v) { return (_Float16)v; }
};
struct BF16 {
    typedef u16 S;
    typedef float V;
    typedef float A;
    PF_MEMBER V load(S s) { return from_bf16(s); }
    PF_MEMBER S store(V v) { return to_bf16(v); }
};

template <class D, class I> PF_DEVICE typename D::V get(u64 base, I at) {
    return D::load(((const PF_GLOBAL typename D::S*)base)[at]);
}
template <class D, class I> PF_DEVICE void put(u64 base, I at, typename D::V value) {
    ((PF_GLOBAL typename D::S*)base)[at] = D::store(value);
}

// Returns the remainder of a division by a length; `rest` becomes the quotient. `magic` turns the division into a multiplication.
PF_DEVICE i32 split(i32& rest, u64 length, u64 magic) {
    u32 n = (u32)rest;
    u32 quotient = (u32)((((u64)n * (u32)magic) >> 32) + n) >> (u32)(magic >> 32);
    rest = (i32)quotient;
    return (i32)(n - quotient * (u32)length);
}
PF_DEVICE i64 split(i64& rest, u64 length, u64) {
    u64 n = (u64)rest;
    u64 quotient = (n >> 32) == 0 && (length >> 32) == 0 ? (u64)((u32)n / (u32)length) : n / length;
    rest = (i64)quotient;
    return (i64)(n - quotient * length);
}

// Floats to integers: truncates and saturates; NaN becomes zero.
template <class T> struct Limits;
template <> struct Limits<u8> { static constexpr u8 low = 0, high = 0xFF; };
template <> struct Limits<u16> { static constexpr u16 low = 0, high = 0xFFFF; };
template <> struct Limits<u32> { static constexpr u32 low = 0, high = 0xFFFFFFFFu; };
template <> struct Limits<u64> { static constexpr u64 low = 0, high = ~0ul; };
template <> struct Limits<i8> { static constexpr i8 low = -128, high = 127; };
template <> struct Limits<i16> { static constexpr i16 low = -32768, high = 32767; };
template <> struct Limits<i32> { static constexpr i32 low = -2147483647 - 1, high = 2147483647; };
template <> struct Limits<i64> { static constexpr i64 low = -9223372036854775807l - 1, high = 9223372036854775807l; };
template <class T, class F> PF_DEVICE T truncated(F x) {
    if (x != x) return 0;
    if (x <= (F)Limits<T>::low) return Limits<T>::low;
    if (x >= (F)Limits<T>::high) return Limits<T>::high;
    return (T)x;
}
template <class T> struct To {
    template <class F> PF_MEMBER T from(F x) { return (T)x; }
    PF_MEMBER T from(float x) { return truncated<T>(x); }
    PF_MEMBER T from(double x) { return truncated<T>(x); }
    PF_MEMBER T from(c64 x) { return truncated<T>(x.x); }
};
template <> struct To<bool> {
    template <class F> PF_MEMBER bool from(F x) { return x != 0; }
    PF_MEMBER bool from(c64 x) { return x.x != 0 || x.y != 0; }
};
template <> struct To<float> {
    template <class F> PF_MEMBER float from(F x) { return (float)x; }
    PF_MEMBER float from(c64 x) { return x.x; }
};
template <> struct To<double> {
    template <class F> PF_MEMBER double from(F x) { return (double)x; }
    PF_MEMBER double from(c64 x) { return x.x; }
};
template <> struct To<c64> {
    template <class F> PF_MEMBER c64 from(F x) { return c64{(float)x, 0.0f}; }
    PF_MEMBER c64 from(c64 x) { return x; }
};

PF_DEVICE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
PF_DEVICE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
template <class T> PF_DEVICE T fma(T a, T b, T c) { return (T)((u64)a * (u64)b + (u64)c); }

}  // namespace pf

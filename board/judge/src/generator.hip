// Generates an input on the device. The seed is derived from the secret of the submission. The host generates the same bits
// (board/problems/src/generator.rs), so every operation here must be exact or rounded as IEEE 754 says.
#include <hip/hip_runtime.h>

// Element types and kinds of numbers, as in generator.rs.
enum { kFloat16, kBfloat16, kFloat32, kFloat64, kOneByte, kFourBytes, kEightBytes };
enum { kUniform, kIntegers, kBits };

static __device__ unsigned long long mixed(unsigned long long z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static __device__ unsigned short bfloat_bits(float value) {
    unsigned bits = __float_as_uint(value);
    return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <typename T>
static __device__ void store(void* to, size_t index, T value) {
    static_cast<T*>(to)[index] = value;
}

static __device__ void store_float(void* to, size_t index, unsigned type, double value) {
    switch (type) {
    case kFloat16:
        return store(to, index, (_Float16)(float)value);
    case kBfloat16:
        return store(to, index, bfloat_bits((float)value));
    case kFloat32:
        return store(to, index, (float)value);
    default:
        return store(to, index, value);
    }
}

extern "C" __global__ void generate(void* to, size_t count, unsigned long long seed, unsigned type, unsigned kind,
                                    unsigned long long low, unsigned long long span) {
    size_t step = gridDim.x * (size_t)blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += step) {
        unsigned long long bits = mixed(seed + (i + 1) * 0x9e3779b97f4a7c15ull);
        if (kind == kUniform) {
            double unit = (double)(bits >> 11) * 0x1p-53;
            store_float(to, i, type,
                        __builtin_fma(__longlong_as_double((long long)span), unit, __longlong_as_double((long long)low)));
            continue;
        }
        unsigned long long whole = kind == kIntegers ? low + __umul64hi(bits, span) : bits;
        if (kind == kIntegers && type <= kFloat64) {
            store_float(to, i, type, (double)(long long)whole);
            continue;
        }
        switch (type) {
        case kOneByte:
            store(to, i, (unsigned char)whole);
            break;
        case kFloat16:
        case kBfloat16:
            store(to, i, (unsigned short)whole);
            break;
        case kFloat32:
        case kFourBytes:
            store(to, i, (unsigned)whole);
            break;
        default:
            store(to, i, whole);
        }
    }
}

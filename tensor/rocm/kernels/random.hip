// Philox 4x32-10 and its distributions, step by step as in tensor-core's `random.rs`: the same bits.
namespace pf {

struct Four {
    u32 w[4];
};

PF_DEVICE Four philox(u64 seed, u64 position) {
    Four c = {{(u32)position, (u32)(position >> 32), 0, 0}};
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const u64 first = 0xD2511F53ul * c.w[0], second = 0xCD9E8D57ul * c.w[2];
        c = {{(u32)(second >> 32) ^ c.w[1] ^ k0, (u32)second, (u32)(first >> 32) ^ c.w[3] ^ k1, (u32)first}};
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

PF_DEVICE u64 wide(u32 low, u32 high) { return (u64)high << 32 | low; }
PF_DEVICE float uniform_f32(u32 word) { return (float)(word >> 8) * (1.0f / 16777216.0f); }
PF_DEVICE double uniform_f64(u32 low, u32 high) { return (double)(wide(low, high) >> 11) * (1.0 / 9007199254740992.0); }
PF_DEVICE i64 integer(u32 low_word, u32 high_word, i64 low, i64 high) {
    const u64 word = wide(low_word, high_word), range = (u64)high - (u64)low;
    const u64 low_product = (word & 0xFFFFFFFFul) * (range & 0xFFFFFFFFul) >> 32;
    const u64 a = (word >> 32) * (range & 0xFFFFFFFFul), b = (word & 0xFFFFFFFFul) * (range >> 32);
    const u64 middle = (a & 0xFFFFFFFFul) + (b & 0xFFFFFFFFul) + low_product;
    return (i64)((u64)low + (word >> 32) * (range >> 32) + (a >> 32) + (b >> 32) + (middle >> 32));
}

PF_DEVICE double natural_logarithm(double x) {
    const u64 b = bits<u64>(x);
    i64 exponent = (i64)(b >> 52) - 1023;
    double mantissa = bits<double>((b & 0x000FFFFFFFFFFFFFul) | 0x3FF0000000000000ul);
    if (mantissa > 1.41421356237309504880168872420969808) {
        mantissa *= 0.5;
        exponent += 1;
    }
    const double s = (mantissa - 1.0) / (mantissa + 1.0), square = s * s;
    double sum = 0.0;
#pragma unroll
    for (int n = 10; n >= 0; n--) sum = fma(sum, square, 1.0 / (double)(2 * n + 1));
    return fma((double)exponent, 0.693147180559945309417232121458176568, 2.0 * s * sum);
}

struct Two {
    double x, y;
};

PF_DEVICE Two box_muller(double first, double second) {
    const double radius = __builtin_sqrt(-2.0 * natural_logarithm(first));
    const double quarter = __builtin_floor(second * 4.0 + 0.5);
    const double x = (second * 4.0 - quarter) * 1.57079632679489661923132169163975144;
    const double square = x * x;
    double sine = 0.0, cosine = 0.0;
#pragma unroll
    for (int n = 9; n >= 0; n--) {
        sine = fma(-(square / (double)((2 * n + 2) * (2 * n + 3))), sine, 1.0);
        cosine = fma(-(square / (double)((2 * n + 1) * (2 * n + 2))), cosine, 1.0);
    }
    sine *= x;
    const u32 turn = (u32)quarter % 4;
    const double s = turn == 0 ? sine : turn == 1 ? cosine : turn == 2 ? -sine : -cosine;
    const double c = turn == 0 ? cosine : turn == 1 ? -sine : turn == 2 ? -cosine : sine;
    return {radius * c, radius * s};
}

PF_DEVICE Two normal_pair(u32 first, u32 second) {
    return box_muller(((double)first + 1.0) * (1.0 / 4294967296.0), (double)second * (1.0 / 4294967296.0));
}
PF_DEVICE Two normal_pair_f64(Four block) {
    return box_muller(uniform_f64(block.w[0], block.w[1]) + 1.0 / 9007199254740992.0, uniform_f64(block.w[2], block.w[3]));
}

// Uniform numbers of narrower types are rounded down, so that 1 is never reached.
PF_DEVICE float down_f16(float x) {
    const float nearest = round_f16(x);
    return nearest > x ? (float)bits<_Float16>((u16)(bits<u16>((_Float16)x) - 1)) : nearest;
}
PF_DEVICE float down_bf16(float x) { return bits<float>(bits<u32>(x) & 0xFFFF0000u); }

}  // namespace pf

#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include <hip/hip_bfloat16.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
@SOLUTION@
namespace harness {

#define HARNESS_CHECK(call)                                                                                      \
    do {                                                                                                         \
        hipError_t error_ = (call);                                                                              \
        if (error_ != hipSuccess) {                                                                              \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, hipGetErrorString(error_));       \
            std::exit(2);                                                                                        \
        }                                                                                                        \
    } while (0)

// Functions for formulas, with integers and with real numbers.
[[maybe_unused]] static long long divide(long long a, long long b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }
[[maybe_unused]] static double divide(double a, double b) { return a / b; }
[[maybe_unused]] static long long power(long long a, long long b) { return b <= 0 ? 1 : a * power(a, b - 1); }
[[maybe_unused]] static double power(double a, double b) { return std::pow(a, b); }
[[maybe_unused]] static long long root(long long a) { return (long long)std::sqrt((double)a); }
[[maybe_unused]] static double root(double a) { return std::sqrt(a); }
[[maybe_unused]] static long long logarithm(long long a) { return a <= 1 ? 0 : 1 + logarithm((a + 1) / 2); }
[[maybe_unused]] static double logarithm(double a) { return std::log2(a); }
template <class N> static N least(N a, N b) { return a < b ? a : b; }
template <class N> static N most(N a, N b) { return a > b ? a : b; }

enum Role { IN, OUT, INOUT, SCALAR };
enum Type { FLOAT16, BFLOAT16, FLOAT32, FLOAT64, INT8, UINT8, INT32, UINT32, INT64, UINT64 };

static size_t size_of(Type type) {
    switch (type) {
        case INT8: case UINT8: return 1;
        case FLOAT16: case BFLOAT16: return 2;
        case FLOAT32: case INT32: case UINT32: return 4;
        default: return 8;
    }
}

static bool is_float(Type type) { return type <= FLOAT64; }

static uint16_t half_bits(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    uint32_t sign = bits >> 16 & 0x8000;
    int exponent = (int)(bits >> 23 & 0xff) - 127;
    uint32_t mantissa = (bits & 0x7fffff) | 0x800000;
    if (exponent > 15) return (uint16_t)(sign | 0x7c00);
    int shift = exponent < -14 ? 13 + (-14 - exponent) : 13;
    if (shift > 24) return (uint16_t)sign;
    uint32_t kept = mantissa >> shift, rest = mantissa & ((1u << shift) - 1), middle = 1u << (shift - 1);
    if (rest > middle || (rest == middle && (kept & 1))) ++kept;
    // A mantissa that rounds up to the next power of two carries into the exponent.
    uint32_t biased = exponent < -14 ? 0 : (uint32_t)(exponent + 14) << 10;
    return (uint16_t)(sign | (biased + kept));
}

static float half_value(uint16_t bits) {
    int exponent = bits >> 10 & 31;
    float mantissa = (float)(bits & 0x3ff);
    float value = exponent == 31 ? (bits & 0x3ff ? NAN : INFINITY)
                : exponent == 0 ? std::ldexp(mantissa, -24)
                                : std::ldexp(mantissa + 1024.0f, exponent - 25);
    return bits & 0x8000 ? -value : value;
}

static void put(std::vector<uint8_t>& bytes, size_t index, Type type, double value) {
    uint8_t* to = bytes.data() + index * size_of(type);
    float single = (float)value;
    switch (type) {
        case FLOAT16: { uint16_t bits = half_bits(single); std::memcpy(to, &bits, 2); break; }
        case BFLOAT16: {
            uint32_t bits;
            std::memcpy(&bits, &single, 4);
            bits += 0x7fff + (bits >> 16 & 1);
            uint16_t high = (uint16_t)(bits >> 16);
            std::memcpy(to, &high, 2);
            break;
        }
        case FLOAT32: std::memcpy(to, &single, 4); break;
        case FLOAT64: std::memcpy(to, &value, 8); break;
        case INT8: *(int8_t*)to = (int8_t)value; break;
        case UINT8: *to = (uint8_t)value; break;
        case INT32: { int32_t whole = (int32_t)value; std::memcpy(to, &whole, 4); break; }
        case UINT32: { uint32_t whole = (uint32_t)value; std::memcpy(to, &whole, 4); break; }
        case INT64: { int64_t whole = (int64_t)value; std::memcpy(to, &whole, 8); break; }
        case UINT64: { uint64_t whole = (uint64_t)value; std::memcpy(to, &whole, 8); break; }
    }
}

template <class T> static T read(const uint8_t* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

// A long double represents every number of every element type exactly.
static long double get(const std::vector<uint8_t>& bytes, size_t index, Type type) {
    const uint8_t* from = bytes.data() + index * size_of(type);
    switch (type) {
        case FLOAT16: return half_value(read<uint16_t>(from));
        case BFLOAT16: {
            uint32_t bits = (uint32_t)read<uint16_t>(from) << 16;
            float value;
            std::memcpy(&value, &bits, 4);
            return value;
        }
        case FLOAT32: return read<float>(from);
        case FLOAT64: return read<double>(from);
        case INT8: return read<int8_t>(from);
        case UINT8: return read<uint8_t>(from);
        case INT32: return read<int32_t>(from);
        case UINT32: return read<uint32_t>(from);
        case INT64: return read<int64_t>(from);
        default: return read<uint64_t>(from);
    }
}

// Inputs are the same on every machine and in every run.
struct Random {
    uint64_t state;
    uint64_t bits() {
        uint64_t z = (state += 0x9e3779b97f4a7c15ull);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    double uniform(double low, double high) { return low + (high - low) * (double)(bits() >> 11) / 9007199254740992.0; }
    long long integer(long long low, long long high) { return low + (long long)(bits() % ((uint64_t)(high - low) + 1)); }
};

struct Argument {
    const char* name;
    Role role;
    Type type;
    std::vector<long long> shape;
    std::vector<uint8_t> bytes;
    int device = 0;

    size_t count() const {
        size_t count = 1;
        for (long long extent : shape) count *= (size_t)extent;
        return count;
    }
    void room() { bytes.assign(count() * size_of(type), 0); }
    template <class F> void each(F value) {
        room();
        for (size_t i = 0; i < count(); ++i) put(bytes, i, type, value((long long)i));
    }
    void uniform(Random random, double low, double high) {
        each([&](long long) { return random.uniform(low, high); });
    }
    void integers(Random random, long long low, long long high) {
        room();
        for (size_t i = 0; i < count(); ++i) {
            long long value = random.integer(low, high);
            if (is_float(type)) put(bytes, i, type, (double)value);
            else std::memcpy(bytes.data() + i * size_of(type), &value, size_of(type));
        }
    }
    void random_bits(Random random) {
        room();
        for (uint8_t& byte : bytes) byte = (uint8_t)random.bits();
    }
};

struct Launch {
    dim3 grid, block;
    unsigned lds;
};

// Calls the solution with arguments converted to its own parameter types.
template <class R, class... P, size_t... I>
static void call_host(R (*function)(P...), void** arguments, std::index_sequence<I...>) {
    function(*reinterpret_cast<std::remove_cv_t<std::remove_reference_t<P>>*>(arguments[I])...);
}
template <class R, class... P> static void call_host(R (*function)(P...), void** arguments) {
    call_host(function, arguments, std::index_sequence_for<P...>{});
}

@PROBLEM@
static void use_device(int device) {
    if (DEVICES > 1) HARNESS_CHECK(hipSetDevice(device));
}

// Waits for all devices. The current one is the first afterwards.
static void synchronize() {
    for (int device = DEVICES - 1; device >= 0; --device) {
        use_device(device);
        HARNESS_CHECK(hipDeviceSynchronize());
    }
}

// Arguments on the devices.
struct Device {
    std::vector<Argument>& arguments;
    std::vector<void*> pointers;
    std::vector<void*> slots;

    explicit Device(std::vector<Argument>& all) : arguments(all), pointers(all.size(), nullptr) {
        for (size_t i = 0; i < all.size(); ++i) {
            if (all[i].role == SCALAR) continue;
            use_device(all[i].device);
            HARNESS_CHECK(hipMalloc(&pointers[i], all[i].count() * size_of(all[i].type)));
            if (all[i].role == IN) upload(i);
        }
        use_device(0);
        for (size_t i = 0; i < all.size(); ++i)
            slots.push_back(all[i].role == SCALAR ? (void*)all[i].bytes.data() : (void*)&pointers[i]);
    }
    ~Device() {
        for (void* pointer : pointers) (void)hipFree(pointer);
    }
    void upload(size_t i) {
        HARNESS_CHECK(hipMemcpy(pointers[i], arguments[i].bytes.data(), arguments[i].bytes.size(), hipMemcpyHostToDevice));
    }
    // Poisons outputs, so that unwritten elements are detected, and restores in-out arguments.
    void reset() {
        for (size_t i = 0; i < arguments.size(); ++i) {
            use_device(arguments[i].device);
            if (arguments[i].role == OUT) HARNESS_CHECK(hipMemset(pointers[i], 0xff, arguments[i].count() * size_of(arguments[i].type)));
            if (arguments[i].role == INOUT) upload(i);
        }
        synchronize();
    }
    std::vector<std::vector<uint8_t>> outputs() {
        std::vector<std::vector<uint8_t>> all;
        for (size_t i = 0; i < arguments.size(); ++i) {
            if (arguments[i].role != OUT && arguments[i].role != INOUT) continue;
            all.emplace_back(arguments[i].count() * size_of(arguments[i].type));
            HARNESS_CHECK(hipMemcpy(all.back().data(), pointers[i], all.back().size(), hipMemcpyDeviceToHost));
        }
        return all;
    }
    void run(const Sizes& s) {
        call(s, slots.data());
        HARNESS_CHECK(hipGetLastError());
    }
};

static bool near(long double expected, long double actual, const Sizes& s) {
    return std::isfinite((double)actual) && std::fabs(actual - expected) <= absolute_tolerance(s) + relative_tolerance() * std::fabs(expected);
}

// Compares with the results of the board's reference.
static bool check(const Check& check) {
    Sizes s = check.sizes;
    std::vector<Argument> all = arguments(s);
    for (size_t i = 0; i < all.size(); ++i)
        if (check.inputs[i]) std::memcpy(all[i].bytes.data(), check.inputs[i], all[i].bytes.size());
    Device device(all);
    device.reset();
    device.run(s);
    synchronize();
    std::vector<std::vector<uint8_t>> outputs = device.outputs();
    size_t output = 0;
    for (size_t i = 0; i < all.size(); ++i) {
        if (all[i].role != OUT && all[i].role != INOUT) continue;
        for (size_t at = 0; at < all[i].count(); ++at) {
            long double actual = get(outputs[output], at, all[i].type), expected = check.expected[output][at];
            if (near(expected, actual, s)) continue;
            std::printf("%s: %s[%zu] is %.9Lg and should be %.9Lg\n", check.name, all[i].name, at, actual, expected);
            return false;
        }
        ++output;
    }
    return true;
}

// Plausibility check without a reference: outputs must be finite, and equal in each run up to the order of summation.
static bool same(const std::vector<Argument>& all, const std::vector<std::vector<uint8_t>>& first,
                 const std::vector<std::vector<uint8_t>>& last, const Sizes& s) {
    size_t output = 0;
    for (const Argument& argument : all) {
        if (argument.role != OUT && argument.role != INOUT) continue;
        for (size_t at = 0; at < argument.count(); ++at) {
            long double a = get(first[output], at, argument.type), b = get(last[output], at, argument.type);
            if (near(a, b, s)) continue;
            std::printf("%s[%zu] was %.9Lg and then %.9Lg\n", argument.name, at, a, b);
            return false;
        }
        ++output;
    }
    return true;
}

[[maybe_unused]] static std::string extent(dim3 d) {
    if (d.y == 1 && d.z == 1) return std::to_string(d.x);
    return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ")";
}

static int usage(const char* program) {
    std::printf("usage: %s [--case N] [--iterations N] [--flush MIB] [SIZE | size=value ...]\n\n"
                "SIZE sets n, m and k, as far as the problem has them.\n\ncases:\n", program);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; ++i) std::printf("  %zu  %s\n", i, CASES[i].name);
    return 2;
}

static int failed() {
    std::printf("Correctness check: FAILED\n");
    return 1;
}

static int run(int argc, char** argv) {
    size_t chosen = 0;
    int iterations = 20;
    size_t flush_bytes = (size_t)512 << 20;
    std::string size;
    std::vector<std::pair<std::string, std::string>> changes;
    for (int i = 1; i < argc; ++i) {
        std::string word = argv[i];
        size_t equals = word.find('=');
        if (word == "--case" && i + 1 < argc) chosen = (size_t)std::atoll(argv[++i]);
        else if (word == "--iterations" && i + 1 < argc) iterations = std::max(1, std::atoi(argv[++i]));
        else if (word == "--flush" && i + 1 < argc) flush_bytes = (size_t)std::atoll(argv[++i]) << 20;
        else if (!word.empty() && word.find_first_not_of("0123456789") == std::string::npos) size = word;
        else if (equals != std::string::npos) changes.emplace_back(word.substr(0, equals), word.substr(equals + 1));
        else return usage(argv[0]);
    }
    if (chosen >= sizeof CASES / sizeof *CASES) return usage(argv[0]);
    Sizes s = CASES[chosen].sizes;
    if (!size.empty()) {
        bool n = set(s, "n", size.c_str()), m = set(s, "m", size.c_str()), k = set(s, "k", size.c_str());
        if (!n && !m && !k) return usage(argv[0]);
    }
    for (const auto& change : changes)
        if (!set(s, change.first, change.second.c_str())) return usage(argv[0]);
    derive(s);

    std::vector<Argument> all = arguments(s);
    size_t memory = 0;
    std::string dimensions;
    size_t elements = 0;
    for (const Argument& argument : all) {
        if (argument.role == SCALAR) continue;
        memory += argument.count() * size_of(argument.type);
        if (dimensions.empty() && (argument.role == OUT || argument.role == INOUT)) {
            elements = argument.count();
            for (long long extent : argument.shape) dimensions += (dimensions.empty() ? "" : " x ") + std::to_string(extent);
        }
    }
    std::printf("=== HIP Benchmark Harness ===\nProblem: %s\nData type: %s\n", PROBLEM, DATA_TYPE);
    std::printf("Dimensions: %s (%zu elements)\nSizes: %s\nMemory: %.2f MB\n\n", dimensions.c_str(), elements,
                describe(s).c_str(), (double)memory / 1e6);
    print_launch(s);

    // First of all: the speed of a wrong solution means nothing.
    bool right = true;
    int devices = 0;
    HARNESS_CHECK(hipGetDeviceCount(&devices));
    if (devices < DEVICES) {
        std::printf("This problem needs %d GPUs; this machine has %d.\n", DEVICES, devices);
        return 2;
    }
    for (const Check& each : CHECKS) right = check(each) && right;
    if (!right) return failed();

    Device device(all);
    void* flush = nullptr;
    if (flush_bytes) HARNESS_CHECK(hipMalloc(&flush, flush_bytes));
    hipEvent_t start, stop;
    HARNESS_CHECK(hipEventCreate(&start));
    HARNESS_CHECK(hipEventCreate(&stop));
    device.reset();
    device.run(s);
    synchronize();
    std::vector<std::vector<uint8_t>> first = device.outputs();
    for (int i = 0; i < 2; ++i) {
        device.reset();
        device.run(s);
    }
    std::printf("\nRunning %d iterations...\n\n", iterations);
    std::vector<float> times;
    for (int i = 0; i < iterations; ++i) {
        device.reset();
        // Flushes the caches, outside of the timed section.
        if (flush) HARNESS_CHECK(hipMemset(flush, i, flush_bytes));
        synchronize();
        auto begin = std::chrono::steady_clock::now();
        HARNESS_CHECK(hipEventRecord(start, nullptr));
        device.run(s);
        HARNESS_CHECK(hipEventRecord(stop, nullptr));
        HARNESS_CHECK(hipEventSynchronize(stop));
        synchronize();
        float milliseconds = std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - begin).count();
        // Events see one device. The time of several is the host's.
        if (DEVICES == 1) HARNESS_CHECK(hipEventElapsedTime(&milliseconds, start, stop));
        times.push_back(milliseconds);
    }
    (void)hipFree(flush);
    if (!same(all, first, device.outputs(), s)) return failed();
    std::sort(times.begin(), times.end());
    size_t half = times.size() / 2;
    double median = times.size() % 2 ? times[half] : 0.5 * ((double)times[half - 1] + times[half]);

    std::printf("=== Benchmark Results ===\nRuntime: %.6f ms\n", median);
    if (flops(s) > 0) std::printf("GFLOPS: %.3f\n", median > 0 ? flops(s) / (median * 1e6) : 0.0);
    else std::printf("GFLOPS: n/a\n");
    std::printf("Bandwidth: %.3f GB/s\n\n", median > 0 ? bytes(s) / (median * 1e6) : 0.0);
    std::printf("Correctness check: PASSED (%zu cases against the reference, and %zu elements of two runs)\n",
                sizeof CHECKS / sizeof *CHECKS, elements);
    return 0;
}

}  // namespace harness

int main(int argc, char** argv) { return harness::run(argc, argv); }

#include <hip/hip_runtime.h>

extern "C" __global__ void vadd(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" __global__ void empty() {}

extern "C" __global__ void coordinates(unsigned* out) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
    unsigned z = blockIdx.z * blockDim.z + threadIdx.z;
    unsigned width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
    out[(z * height + y) * width + x] = x | y << 10 | z << 20;
}

// Sums 256 elements per block in local memory.
extern "C" __global__ void reduce(const int* in, int* out) {
    __shared__ int sums[256];
    int t = threadIdx.x;
    sums[t] = in[blockIdx.x * 256 + t];
    __syncthreads();
    for (int step = 128; step > 0; step /= 2) {
        if (t < step) sums[t] += sums[t + step];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = sums[0];
}

extern "C" __global__ void dynamic_reverse(const int* in, int* out) {
    extern __shared__ int buffer[];
    int t = threadIdx.x, n = blockDim.x;
    buffer[n - 1 - t] = in[blockIdx.x * n + t];
    __syncthreads();
    out[blockIdx.x * n + t] = buffer[t];
}

extern "C" __global__ void histogram(const unsigned char* in, int n, unsigned* bins) {
    __shared__ unsigned local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[in[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}

// Every atomic of HIP, each on its own cell; all lanes of all blocks take part.
extern "C" __global__ void atomics(unsigned* u, int* s, unsigned long long* w, float* f, double* d) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&u[0], i);
    atomicSub(&u[1], 1u);
    atomicMax(&u[2], i);
    atomicMin(&u[3], i + 5);
    atomicAnd(&u[4], ~(1u << (i & 31)));
    atomicOr(&u[5], 1u << (i & 31));
    atomicXor(&u[6], i);
    atomicInc(&u[7], 99u);
    atomicDec(&u[8], 99u);
    atomicMax(&s[0], (int)i - 100);
    atomicMin(&s[1], -(int)i);
    atomicAdd(&w[0], (unsigned long long)i << 20);
    atomicMax(&w[1], (unsigned long long)i << 33);
    atomicAdd(f, 1.0f);
    atomicAdd(d, 0.5);
    // A lock-free maximum by compare and swap.
    unsigned old = u[9];
    while (old < i) {
        unsigned seen = atomicCAS(&u[9], old, i);
        if (seen == old) break;
        old = seen;
    }
    if (atomicExch(&u[10], i + 1) == 0) u[11] = i;
}

// Collatz steps: lanes leave the loop at different times.
extern "C" __global__ void collatz(const unsigned* in, unsigned* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned x = in[i], steps = 0;
    while (x != 1) {
        if (x & 1) x = 3 * x + 1; else x /= 2;
        ++steps;
    }
    switch (steps & 3) {
        case 0: out[i] = steps; break;
        case 1: out[i] = steps * 10; break;
        case 2: out[i] = steps + 1000; break;
        default: out[i] = ~steps;
    }
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void recursion(int* out) { out[threadIdx.x] = fibonacci(threadIdx.x % 12); }

typedef int (*Operation)(int, int);
__device__ __noinline__ int plus(int a, int b) { return a + b; }
__device__ __noinline__ int times(int a, int b) { return a * b; }
__device__ Operation operations[2] = {plus, times};
extern "C" __global__ void pointers(int* out) { out[threadIdx.x] = operations[threadIdx.x & 1](threadIdx.x, 7); }

struct Shape { virtual __device__ int area(int x) { return x; } };
struct Square : Shape { __device__ int area(int x) override { return x * x; } };
extern "C" __global__ void virtuals(int* out) {
    Shape shape; Square square;
    Shape* which = threadIdx.x & 1 ? &square : &shape;
    out[threadIdx.x] = which->area(threadIdx.x);
}

// An array that lives in private memory, indexed by data.
extern "C" __global__ void scratch(const int* order, int* out) {
    int values[32];
    for (int i = 0; i < 32; ++i) values[i] = i * threadIdx.x;
    int sum = 0;
    for (int i = 0; i < 32; ++i) { values[order[i] & 31] += i; sum = sum * 3 + values[order[(i * 7) & 31] & 31]; }
    char bytes[16];
    for (int i = 0; i < 16; ++i) bytes[order[i] & 15] = sum >> i;
    for (int i = 0; i < 16; ++i) sum += bytes[i];
    out[threadIdx.x] = sum;
}

__device__ int counter = 5;
__constant__ int table[4] = {10, 20, 30, 40};
extern "C" __global__ void globals(int* out) {
    out[threadIdx.x] = table[threadIdx.x & 3] + counter;
    __syncthreads();
    if (threadIdx.x == 0) counter += 1;
}

// Generic pointers into local, private and global memory.
extern "C" __global__ void generic(int* out, int pick) {
    __shared__ int local;
    int own = threadIdx.x;
    if (threadIdx.x == 0) local = 1000;
    __syncthreads();
    int* where = pick == 0 ? &local : pick == 1 ? &own : out + 64;
    if (pick == 3) where = (threadIdx.x & 1) ? &own : &local;
    int value = *(volatile int*)where;
    __syncthreads();
    out[threadIdx.x] = value;
}

extern "C" __global__ void sizes(unsigned* out) {
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        out[0] = gridDim.x; out[1] = gridDim.y; out[2] = gridDim.z;
        out[3] = blockDim.x; out[4] = blockDim.y; out[5] = blockDim.z;
        out[6] = warpSize;
    }
}

extern "C" __global__ void last_block_size(unsigned* out) {
    out[blockIdx.x * 64 + threadIdx.x] = blockDim.x * 1000 + threadIdx.x;
}

extern "C" __global__ void shuffles(const int* in, int* out) {
    int v = in[threadIdx.x];
    out[threadIdx.x] = __shfl_xor(v, 3) + 1000 * __shfl_up(v, 2) + 1000000 * __shfl(v, 5);
    out[64 + threadIdx.x] = __popcll(__ballot(v & 1));
    out[128 + threadIdx.x] = __shfl_down(v, 9, 16);
}

extern "C" __global__ void widths(const unsigned char* b, const short* h, const double* d, const float4* q,
                                  unsigned char* ob, short* oh, double* od, float4* oq, float3* ot) {
    int i = threadIdx.x;
    ob[63 - i] = b[i] + 1;
    oh[63 - i] = h[i] * 2;
    od[63 - i] = d[i] * 0.5;
    float4 v = q[i];
    oq[63 - i] = make_float4(v.w, v.z, v.y, v.x);
    ot[i] = make_float3(v.x + 1, v.y + 1, v.z + 1);
}

extern "C" __global__ void clocks(unsigned long long* out) {
    unsigned long long a = wall_clock64(), c = clock64();
    for (int i = 0; i < 100; ++i) __builtin_amdgcn_s_sleep(1);
    out[0] = wall_clock64() - a;
    out[1] = clock64() - c;
}

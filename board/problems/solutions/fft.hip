#include <hip/hip_runtime.h>

// Cooley-Tukey, in place after the inputs are put into bit-reversed order.
__global__ void reorder(const float* real_in, const float* imag_in, float* real_out, float* imag_out, size_t n, int bits) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n) return;
    size_t reversed = bits == 0 ? 0 : __brevll(i) >> (64 - bits);
    real_out[reversed] = real_in[i];
    imag_out[reversed] = imag_in[i];
}

__global__ void butterflies(float* real, float* imaginary, size_t n, size_t half) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n / 2) return;
    size_t place = i % half, even = i / half * 2 * half + place, odd = even + half;
    float sine, cosine;
    sincospif(-(float)place / (float)half, &sine, &cosine);
    float x = real[odd] * cosine - imaginary[odd] * sine, y = real[odd] * sine + imaginary[odd] * cosine;
    float u = real[even], v = imaginary[even];
    real[even] = u + x;
    imaginary[even] = v + y;
    real[odd] = u - x;
    imaginary[odd] = v - y;
}

extern "C" void solution(const float* real_in, const float* imag_in, float* real_out, float* imag_out, size_t n) {
    int bits = __builtin_ctzll(n);
    reorder<<<unsigned((n + 255) / 256), 256>>>(real_in, imag_in, real_out, imag_out, n, bits);
    unsigned groups = unsigned((n / 2 + 255) / 256);
    for (size_t half = 1; half < n; half *= 2) butterflies<<<groups, 256>>>(real_out, imag_out, n, half);
}

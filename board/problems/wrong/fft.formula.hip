#include <hip/hip_runtime.h>

// One work-group: each thread sums the terms of its outputs, with angles reduced modulo n first.
extern "C" __global__ void solution(const float* real_in, const float* imag_in, float* real_out, float* imag_out, size_t n) {
    for (size_t k = threadIdx.x; k < n; k += blockDim.x) {
        float real = 0.0f, imaginary = 0.0f;
        for (size_t j = 0; j < n; ++j) {
            float angle = 2.0f * (float)(j * k % n) / (float)n, sine, cosine;
            sincospif(angle, &sine, &cosine);
            real += real_in[j] * cosine - imag_in[j] * sine;
            imaginary += real_in[j] * sine + imag_in[j] * cosine;
        }
        real_out[k] = real;
        imag_out[k] = imaginary;
    }
}

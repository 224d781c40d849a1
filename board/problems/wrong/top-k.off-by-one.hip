#include <hip/hip_runtime.h>

// An element's rank is the number of elements that are larger, or equal and before it.
extern "C" __global__ void solution(const float* input, float* output, size_t n, size_t k) {
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
        float mine = input[i];
        size_t place = 0;
        for (size_t j = 0; j < n && place < k; ++j) {
            float other = input[j];
            place += other > mine || (other == mine && j < i);
        }
        if (place + 1 < k || k == 1) output[place] = mine;
    }
}

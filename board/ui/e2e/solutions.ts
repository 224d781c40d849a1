/** What the tests hand in: bodies for the starter code of leaky-relu. */

const each = (inside: string) => `    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i >= n * m) return;
${inside}`;

export const right = each("    output[i] = input[i] > 0.0f ? input[i] : alpha * input[i];");

export const rightToo = each("    output[i] = fmaxf(input[i], alpha * input[i]);");

/** The last column is forgotten. */
export const wrong = each(`    bool last = i % m == m - 1;
    output[i] = input[i] > 0.0f || last ? input[i] : alpha * input[i];`);

/** Writes far outside of its output. */
export const outside = each("    output[i + 100000000] = input[i];");

/** Each GPU reads the vector of the other. */
export const allReduce = `#include <hip/hip_runtime.h>
__global__ void add(const float* own, const float* other, float* sum, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n) sum[i] = own[i] + other[i];
}
extern "C" void solution(const float* input0, const float* input1, float* output0, float* output1, size_t n) {
    add<<<(n + 255) / 256, 256>>>(input0, input1, output0, n);
    (void)hipSetDevice(1);
    add<<<(n + 255) / 256, 256>>>(input1, input0, output1, n);
}
`;

export const broken = each("    output[i] = inptu[i];");

/** Endless in a way that no compiler may leave out. */
export const endless = each(`    volatile float* place = output;
    while (place[i] != 12345.0f) place[i] = 0.0f;`);

/** Reads what other waves write, without a barrier. */
export const racy = `    __shared__ float tile[256];
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    tile[threadIdx.x] = i < n * m ? input[i] : 0.0f;
    float x = tile[255 - threadIdx.x];
    if (i < n * m) output[i] = x;`;

/** Nearly all of its instructions are those of one line. */
export const slow = each(`    float x = input[i];
    #pragma unroll 1
    for (int k = 0; k < 300; k++) x = x * 1.0001f + alpha;
    output[i] = x;`);

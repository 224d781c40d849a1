// Softmax over the rows of a matrix, one block per row, with expf and block-wide reductions.
#include "check.h"

EXAMPLE("softmax");

constexpr int block = 128;

template <typename Combine> __device__ float block_reduce(float value, float *scratch, Combine combine) {
  scratch[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = block / 2; half > 0; half /= 2) {
    if (threadIdx.x < half)
      scratch[threadIdx.x] = combine(scratch[threadIdx.x], scratch[threadIdx.x + half]);
    __syncthreads();
  }
  float result = scratch[0];
  __syncthreads();
  return result;
}

__global__ void softmax(const float *input, float *output, int columns) {
  extern __shared__ float scratch[];
  const float *in = input + static_cast<size_t>(blockIdx.x) * columns;
  float *out = output + static_cast<size_t>(blockIdx.x) * columns;
  float largest = -INFINITY;
  for (int i = static_cast<int>(threadIdx.x); i < columns; i += block)
    largest = fmaxf(largest, in[i]);
  largest = block_reduce(largest, scratch, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0.0f;
  for (int i = static_cast<int>(threadIdx.x); i < columns; i += block)
    sum += expf(in[i] - largest);
  sum = block_reduce(sum, scratch, [](float a, float b) { return a + b; });
  for (int i = static_cast<int>(threadIdx.x); i < columns; i += block)
    out[i] = expf(in[i] - largest) / sum;
}

int main() {
  const int rows = 48, columns = 500;
  std::vector<float> input(rows * columns);
  Random random(4);
  for (float &value : input)
    value = 20.0f * random.signed_unit();
  DeviceArray<float> device_input(input), device_output(input.size());
  softmax<<<rows, block, block * sizeof(float)>>>(device_input.get(), device_output.get(), columns);
  HIP_OK(hipGetLastError());
  std::vector<float> output = device_output.read();
  std::vector<double> wanted(input.size());
  for (int row = 0; row < rows; ++row) {
    double largest = -INFINITY, sum = 0.0, got_sum = 0.0;
    for (int i = 0; i < columns; ++i)
      largest = std::fmax(largest, input[row * columns + i]);
    for (int i = 0; i < columns; ++i)
      sum += std::exp(input[row * columns + i] - largest);
    for (int i = 0; i < columns; ++i) {
      wanted[row * columns + i] = std::exp(input[row * columns + i] - largest) / sum;
      got_sum += output[row * columns + i];
    }
    if (!(std::fabs(got_sum - 1.0) < 1e-5))
      fail("row %d sums to %.9g", row, got_sum);
  }
  expect_near("output", output, wanted, 1e-6);
  return pass();
}

// Adds two vectors on the GPU and checks the result.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

// Every HIP call returns a status; ignore none.
#define CHECK(call)                                                                                        \
    do {                                                                                                   \
        hipError_t status = (call);                                                                        \
        if (status != hipSuccess) {                                                                        \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, hipGetErrorString(status)); \
            std::exit(1);                                                                                  \
        }                                                                                                  \
    } while (0)

__global__ void add(const float* a, const float* b, float* sum, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        sum[i] = a[i] + b[i];
    }
}

int main() {
    const int count = 100000;
    const size_t bytes = count * sizeof(float);
    std::vector<float> a(count), b(count), sum(count);
    for (int i = 0; i < count; i++) {
        a[i] = i;
        b[i] = 2 * i;
    }

    hipDeviceProp_t device;
    CHECK(hipGetDeviceProperties(&device, 0));
    std::printf("device: %s (%s)\n", device.name, device.gcnArchName);

    float *device_a, *device_b, *device_sum;
    CHECK(hipMalloc(&device_a, bytes));
    CHECK(hipMalloc(&device_b, bytes));
    CHECK(hipMalloc(&device_sum, bytes));
    CHECK(hipMemcpy(device_a, a.data(), bytes, hipMemcpyHostToDevice));
    CHECK(hipMemcpy(device_b, b.data(), bytes, hipMemcpyHostToDevice));

    const int block = 256;
    add<<<(count + block - 1) / block, block>>>(device_a, device_b, device_sum, count);
    CHECK(hipGetLastError());
    CHECK(hipMemcpy(sum.data(), device_sum, bytes, hipMemcpyDeviceToHost));

    for (int i = 0; i < count; i++) {
        if (sum[i] != a[i] + b[i]) {
            std::printf("wrong: sum[%d] is %g, expected %g\n", i, sum[i], a[i] + b[i]);
            return 1;
        }
    }
    std::printf("right: %d sums\n", count);

    CHECK(hipFree(device_a));
    CHECK(hipFree(device_b));
    CHECK(hipFree(device_sum));
    return 0;
}

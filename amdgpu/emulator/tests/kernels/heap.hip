#include <hip/hip_runtime.h>

// Sizes that fall into every kind of block, and past the largest.
__device__ unsigned size_of(unsigned item, unsigned round) { return 1 + (item * 37 + round * 1009) % 5000; }

// Every work-item holds several allocations at once; `wrong` counts overwritten ones, `missing` failed ones.
extern "C" __global__ void churn(unsigned* wrong, unsigned* missing, unsigned rounds) {
    unsigned item = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned char* held[3] = {};
    unsigned sizes[3] = {};
    for (unsigned round = 0; round < rounds; ++round) {
        unsigned at = round % 3;
        if (held[at] != nullptr) {
            for (unsigned k = 0; k < sizes[at]; k += 97)
                if (held[at][k] != (unsigned char)(item + k + at)) atomicAdd(wrong, 1u);
            free(held[at]);
        }
        sizes[at] = size_of(item, round);
        held[at] = (unsigned char*)malloc(sizes[at]);
        if (held[at] == nullptr) {
            atomicAdd(missing, 1u);
            continue;
        }
        for (unsigned k = 0; k < sizes[at]; k += 97) held[at][k] = (unsigned char)(item + k + at);
    }
    for (unsigned at = 0; at < 3; ++at) {
        if (held[at] == nullptr) continue;
        for (unsigned k = 0; k < sizes[at]; k += 97)
            if (held[at][k] != (unsigned char)(item + k + at)) atomicAdd(wrong, 1u);
        free(held[at]);
    }
}

extern "C" __global__ void take(unsigned long long* out, unsigned long long bytes) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = (unsigned long long)malloc(bytes);
}

extern "C" __global__ void give(unsigned long long* out) {
    free((void*)out[blockIdx.x * blockDim.x + threadIdx.x]);
}

extern "C" __global__ void write(unsigned long long* out) {
    *(unsigned*)out[blockIdx.x * blockDim.x + threadIdx.x] = 7;
}

struct Shape {
    __device__ virtual ~Shape() { atomicAdd(destroyed, 1u); }
    __device__ virtual int area() const = 0;
    unsigned* destroyed;
};
struct Square : Shape {
    __device__ Square(int side) : side(side) {}
    __device__ int area() const override { return side * side; }
    int side;
};
struct Bar : Shape {
    __device__ Bar(int w, int h) : w(w), h(h) {}
    __device__ int area() const override { return w * h; }
    int w, h;
    int ballast[40];
};

extern "C" __global__ void objects(int* out, unsigned* destroyed) {
    int item = threadIdx.x;
    Shape* shape = item % 3 == 0 ? (Shape*)new Square(item) : (Shape*)new Bar(item, 2);
    shape->destroyed = destroyed;
    int* list = new int[item + 1];
    for (int k = 0; k <= item; ++k) list[k] = shape->area() + k;
    int sum = 0;
    for (int k = 0; k <= item; ++k) sum += list[k];
    out[item] = sum;
    delete[] list;
    delete shape;
}

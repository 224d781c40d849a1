// Calls that cannot be inlined into the kernel: recursion, and functions that are called through pointers.
#include <hip/hip_runtime.h>

__device__ __noinline__ int pong(int n);
__device__ __noinline__ int ping(int n) { return n <= 0 ? 1 : pong(n - 2) * 3 + n; }
__device__ __noinline__ int pong(int n) { return n <= 0 ? 2 : ping(n - 1) * 5 - n; }
extern "C" __global__ void mutual(int* out) { out[threadIdx.x] = ping(threadIdx.x % 13) + 7 * pong(threadIdx.x % 9); }

// The compiler makes jumps of these calls.
__device__ __noinline__ int falls(int n, int sum);
__device__ __noinline__ int rises(int n, int sum) { return n == 0 ? sum : falls(n - 1, sum + n); }
__device__ __noinline__ int falls(int n, int sum) { return n == 0 ? -sum : rises(n - 1, sum * 3); }
extern "C" __global__ void tails(int* out) { out[threadIdx.x] = rises(threadIdx.x % 11, 1) + falls(threadIdx.x % 5, 2); }

// A recursive function that is called from one that is called from several places.
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ __noinline__ int around(int n) { return fibonacci(n) * 3 + n; }
__device__ __noinline__ int twice(int n) { return around(n) * 2 - around(n + 1); }
extern "C" __global__ void nested(int* out) { out[threadIdx.x] = around(threadIdx.x % 8) + 100 * twice(threadIdx.x % 5); }

// A function that is called and jumped to, and calls a recursive one.
__device__ __noinline__ int leaf(int n) { return fibonacci(n) * 5 + n; }
__device__ __noinline__ int jumps(int n) { return leaf(n * 2 + 1); }
extern "C" __global__ void merged(int* out) { out[threadIdx.x] = jumps(threadIdx.x % 4) + 100 * leaf(threadIdx.x % 5); }

typedef int (*Operation)(int, int);
__device__ int minus(int a, int b) { return a - b; }
__device__ int scaled(int a, int b) { return a * 3 + b; }
__device__ int recursive(int a, int b) { return fibonacci(b & 7) + a; }
__device__ Operation operations[3] = {minus, scaled, recursive};

// Recursion through a pointer.
__device__ __noinline__ int fold(Operation f, int n) { return n == 0 ? 1 : f(fold(f, n - 1), n); }
extern "C" __global__ void folds(int* out) { out[threadIdx.x] = fold(operations[threadIdx.x % 3], threadIdx.x % 6); }

// The compiler makes jumps of these calls.
__device__ __noinline__ int forward(Operation f, int a, int b) { return b == 5 ? a : f(b, a); }
extern "C" __global__ void forwards(int* out) {
    out[threadIdx.x] = forward(operations[threadIdx.x % 3], threadIdx.x, threadIdx.x % 7);
}

// Solutions of the queens' problem with the first queen in a given column; the board is in private memory.
__device__ __noinline__ int queens(int* board, int row, int size) {
    if (row == size) return 1;
    int count = 0;
    for (int column = 0; column < size; ++column) {
        bool free = true;
        for (int other = 0; other < row; ++other) {
            int distance = board[other] - column;
            free &= distance != 0 && distance != row - other && distance != other - row;
        }
        if (free) {
            board[row] = column;
            count += queens(board, row + 1, size);
        }
    }
    return count;
}
extern "C" __global__ void boards(int* out) {
    int board[8];
    board[0] = threadIdx.x % 6;
    out[threadIdx.x] = queens(board, 1, 6);
}

extern "C" __global__ void wild(int* out, Operation f) { out[threadIdx.x] = f(threadIdx.x, 1); }

__device__ __noinline__ int endless(int n) { return endless(n + 1) * 3 + n; }
extern "C" __global__ void overflow(int* out) { out[threadIdx.x] = endless(threadIdx.x); }

// hipBLASLt: matrix products with fused epilogues (bias, ReLU, GELU), in three types.

#include "case.h"

#include <hipblaslt/hipblaslt.h>

struct Shape {
  int rows, columns, inner;
  bool a_transposed, b_transposed;
};

// An epilogue of the product.
struct Fused {
  const char *name;
  hipblasLtEpilogue_t epilogue;
  bool bias;
  double (*then)(double);
};

static double as_it_is(double x) { return x; }
static double relu(double x) { return x > 0 ? x : 0; }
static double gelu(double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

static const Fused FUSED[] = {
    {"gemm", HIPBLASLT_EPILOGUE_DEFAULT, false, as_it_is},
    {"gemm + bias", HIPBLASLT_EPILOGUE_BIAS, true, as_it_is},
    {"gemm + relu", HIPBLASLT_EPILOGUE_RELU, false, relu},
    {"gemm + bias + relu", HIPBLASLT_EPILOGUE_RELU_BIAS, true, relu},
    {"gemm + bias + gelu", HIPBLASLT_EPILOGUE_GELU_BIAS, true, gelu},
};

static const Shape SHAPES[] = {
    {128, 128, 128, false, false},
    {256, 96, 64, true, false},
    {72, 200, 160, false, true},
};

template <typename T>
static void multiply(hipblasLtHandle_t handle, hipDataType type, const Shape &shape, const Fused &fused,
                     double tolerance) {
  auto [rows, columns, inner, a_transposed, b_transposed] = shape;
  auto a = numbers<T>(static_cast<size_t>(rows) * inner, 1);
  auto b = numbers<T>(static_cast<size_t>(inner) * columns, 2);
  auto c = numbers<T>(static_cast<size_t>(rows) * columns, 3);
  auto bias = numbers<T>(static_cast<size_t>(rows), 4);
  const float alpha = 0.5f, beta = 2.0f;

  auto wanted = product(a.data(), b.data(), rows, columns, inner, a_transposed, b_transposed);
  for (size_t i = 0; i < wanted.size(); ++i) {
    double sum = alpha * wanted[i] + beta * value(c[i]) + (fused.bias ? value(bias[i % rows]) : 0);
    wanted[i] = fused.then(sum);
  }

  DeviceArray<T> da(a), db(b), dc(c), dd(c.size()), dbias(bias);
  const size_t limit = 32 << 20;
  DeviceArray<char> workspace(limit);

  hipblasLtMatmulDesc_t matmul;
  OK(hipblasLtMatmulDescCreate(&matmul, HIPBLAS_COMPUTE_32F, HIP_R_32F));
  hipblasOperation_t ta = a_transposed ? HIPBLAS_OP_T : HIPBLAS_OP_N, tb = b_transposed ? HIPBLAS_OP_T : HIPBLAS_OP_N;
  OK(hipblasLtMatmulDescSetAttribute(matmul, HIPBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta));
  OK(hipblasLtMatmulDescSetAttribute(matmul, HIPBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb));
  OK(hipblasLtMatmulDescSetAttribute(matmul, HIPBLASLT_MATMUL_DESC_EPILOGUE, &fused.epilogue, sizeof fused.epilogue));
  if (fused.bias) {
    const void *pointer = dbias.get();
    OK(hipblasLtMatmulDescSetAttribute(matmul, HIPBLASLT_MATMUL_DESC_BIAS_POINTER, &pointer, sizeof pointer));
    OK(hipblasLtMatmulDescSetAttribute(matmul, HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type));
  }
  hipblasLtMatrixLayout_t la, lb, lc;
  OK(hipblasLtMatrixLayoutCreate(&la, type, a_transposed ? inner : rows, a_transposed ? rows : inner,
                                 a_transposed ? inner : rows));
  OK(hipblasLtMatrixLayoutCreate(&lb, type, b_transposed ? columns : inner, b_transposed ? inner : columns,
                                 b_transposed ? columns : inner));
  OK(hipblasLtMatrixLayoutCreate(&lc, type, rows, columns, rows));

  hipblasLtMatmulPreference_t preference;
  OK(hipblasLtMatmulPreferenceCreate(&preference));
  OK(hipblasLtMatmulPreferenceSetAttribute(preference, HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit,
                                           sizeof limit));
  hipblasLtMatmulHeuristicResult_t found[1];
  int count = 0;
  OK(hipblasLtMatmulAlgoGetHeuristic(handle, matmul, la, lb, lc, lc, preference, 1, found, &count));
  if (count == 0)
    throw std::runtime_error("the library has no kernel for it");

  hipStream_t stream;
  OK(hipStreamCreate(&stream));
  OK(hipblasLtMatmul(handle, matmul, &alpha, da.get(), la, db.get(), lb, &beta, dc.get(), lc, dd.get(), lc,
                     &found[0].algo, workspace.get(), limit, stream));
  OK(hipStreamSynchronize(stream));
  OK(hipStreamDestroy(stream));
  expect_near(dd.read(), wanted, tolerance);

  OK(hipblasLtMatmulPreferenceDestroy(preference));
  for (auto layout : {la, lb, lc})
    OK(hipblasLtMatrixLayoutDestroy(layout));
  OK(hipblasLtMatmulDescDestroy(matmul));
}

int main(int count, char **arguments) {
  Cases cases(count, arguments);
  hipblasLtHandle_t handle = nullptr;
  cases.always("create", [&] { OK(hipblasLtCreate(&handle)); });
  for (const Shape &shape : SHAPES)
    for (const Fused &fused : FUSED) {
      std::string name = std::string(fused.name) + " " + std::to_string(shape.rows) + "x" +
                         std::to_string(shape.columns) + "x" + std::to_string(shape.inner) + " " +
                         (shape.a_transposed ? "T" : "N") + (shape.b_transposed ? "T" : "N");
      cases.run(name + " f32", [&] { multiply<float>(handle, HIP_R_32F, shape, fused, 1e-5); });
      cases.run(name + " f16", [&] { multiply<Half>(handle, HIP_R_16F, shape, fused, 2e-3); });
      cases.run(name + " bf16", [&] { multiply<Brain>(handle, HIP_R_16BF, shape, fused, 1.6e-2); });
    }
  cases.always("destroy", [&] { OK(hipblasLtDestroy(handle)); });
  return cases.end();
}

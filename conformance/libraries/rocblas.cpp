// rocBLAS: matrix products of three types, single and batched, and matrix-vector products.

#include "case.h"

#include <rocblas/rocblas.h>

struct Shape {
  int rows, columns, inner;
  bool a_transposed, b_transposed;
  int batches;
};

static const Shape SHAPES[] = {
    {64, 64, 64, false, false, 1},
    {130, 70, 33, true, false, 1},
    {96, 128, 256, false, true, 3},
};

static rocblas_operation operation(bool transposed) {
  return transposed ? rocblas_operation_transpose : rocblas_operation_none;
}

template <typename T, typename Scalar>
static void multiply(rocblas_handle handle, rocblas_datatype type, rocblas_datatype compute, const Shape &shape,
                     double tolerance) {
  auto [rows, columns, inner, a_transposed, b_transposed, batches] = shape;
  size_t a_size = static_cast<size_t>(rows) * inner, b_size = static_cast<size_t>(inner) * columns,
         c_size = static_cast<size_t>(rows) * columns;
  auto a = numbers<T>(a_size * batches, 1);
  auto b = numbers<T>(b_size * batches, 2);
  auto c = numbers<T>(c_size * batches, 3);
  const Scalar alpha = 0.5, beta = 2.0;

  std::vector<double> wanted;
  for (int batch = 0; batch < batches; ++batch) {
    auto one = product(a.data() + batch * a_size, b.data() + batch * b_size, rows, columns, inner, a_transposed,
                       b_transposed);
    for (size_t i = 0; i < one.size(); ++i)
      wanted.push_back(alpha * one[i] + beta * value(c[batch * c_size + i]));
  }

  DeviceArray<T> da(a), db(b), dc(c), dd(c.size());
  OK(rocblas_gemm_strided_batched_ex(handle, operation(a_transposed), operation(b_transposed), rows, columns, inner,
                                     &alpha, da.get(), type, a_transposed ? inner : rows, a_size, db.get(), type,
                                     b_transposed ? columns : inner, b_size, &beta, dc.get(), type, rows, c_size,
                                     dd.get(), type, rows, c_size, batches, compute, rocblas_gemm_algo_standard, 0, 0));
  expect_near(dd.read(), wanted, tolerance);
}

static void multiply_vector(rocblas_handle handle) {
  const int rows = 257, columns = 129;
  auto a = numbers<float>(static_cast<size_t>(rows) * columns, 1);
  auto x = numbers<float>(columns, 2);
  auto y = numbers<float>(rows, 3);
  const float alpha = 0.5f, beta = 2.0f;
  auto wanted = product(a.data(), x.data(), rows, 1, columns, false, false);
  for (int i = 0; i < rows; ++i)
    wanted[i] = alpha * wanted[i] + beta * y[i];
  DeviceArray<float> da(a), dx(x), dy(y);
  OK(rocblas_sgemv(handle, rocblas_operation_none, rows, columns, &alpha, da.get(), rows, dx.get(), 1, &beta, dy.get(),
                   1));
  expect_near(dy.read(), wanted, 1e-5);
}

int main(int count, char **arguments) {
  Cases cases(count, arguments);
  rocblas_handle handle = nullptr;
  cases.always("create", [&] { OK(rocblas_create_handle(&handle)); });
  for (const Shape &shape : SHAPES) {
    std::string name = "gemm " + std::to_string(shape.rows) + "x" + std::to_string(shape.columns) + "x" +
                       std::to_string(shape.inner) + " " + (shape.a_transposed ? "T" : "N") +
                       (shape.b_transposed ? "T" : "N") + " x" + std::to_string(shape.batches);
    const auto f64 = rocblas_datatype_f64_r, f32 = rocblas_datatype_f32_r;
    cases.run(name + " f64", [&] { multiply<double, double>(handle, f64, f64, shape, 1e-14); });
    cases.run(name + " f32", [&] { multiply<float, float>(handle, f32, f32, shape, 1e-5); });
    cases.run(name + " f16", [&] { multiply<Half, float>(handle, rocblas_datatype_f16_r, f32, shape, 2e-3); });
    cases.run(name + " bf16", [&] { multiply<Brain, float>(handle, rocblas_datatype_bf16_r, f32, shape, 1.6e-2); });
  }
  cases.run("gemv f32", [&] { multiply_vector(handle); });
  cases.always("destroy", [&] { OK(rocblas_destroy_handle(handle)); });
  return cases.end();
}

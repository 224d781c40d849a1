// MIOpen: convolution with every kernel that the library offers for it, pooling, softmax and activation. The library compiles its
// kernels at run time.

#include "case.h"

#include <cstddef>
#include <miopen/miopen.h>

// tensor/rocm/src/conv/miopen.rs declares these by hand.
static_assert(sizeof(miopenConvSolution_t) == 32 && offsetof(miopenConvSolution_t, workspace_size) == 8 &&
              offsetof(miopenConvSolution_t, solution_id) == 16 && offsetof(miopenConvSolution_t, algorithm) == 24);
static_assert(miopenHalf == 0 && miopenFloat == 1 && miopenBFloat16 == 5 && miopenConvolution == 0);
static_assert(miopenConvolutionAlgoFFT == 2 && miopenConvolutionAlgoWinograd == 3);
static_assert(MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL == 0 && MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC == 1);
static_assert(sizeof(miopenStatus_t) == 4 && sizeof(miopenDataType_t) == 4);

struct Tensor {
  int n, c, h, w;
  size_t count() const { return static_cast<size_t>(n) * c * h * w; }
  size_t at(int in, int ic, int ih, int iw) const {
    return ((static_cast<size_t>(in) * c + ic) * h + ih) * w + iw;
  }
};

class Description {
public:
  Description(const Tensor &tensor, miopenDataType_t type) {
    OK(miopenCreateTensorDescriptor(&it_));
    OK(miopenSet4dTensorDescriptor(it_, type, tensor.n, tensor.c, tensor.h, tensor.w));
  }
  Description(const Description &) = delete;
  Description &operator=(const Description &) = delete;
  ~Description() { (void)miopenDestroyTensorDescriptor(it_); }
  operator miopenTensorDescriptor_t() const { return it_; }

private:
  miopenTensorDescriptor_t it_ = nullptr;
};

static const char *name_of(miopenConvAlgorithm_t algorithm) {
  switch (algorithm) {
  case miopenConvolutionAlgoGEMM:
    return "gemm";
  case miopenConvolutionAlgoDirect:
    return "direct";
  case miopenConvolutionAlgoFFT:
    return "fft";
  case miopenConvolutionAlgoWinograd:
    return "winograd";
  case miopenConvolutionAlgoImplicitGEMM:
    return "implicit gemm";
  default:
    return "other";
  }
}

struct Convolution {
  const char *name;
  Tensor x;
  int filters, size, pad, stride;
};

static const Convolution CONVOLUTIONS[] = {
    {"3x3", {2, 8, 14, 14}, 16, 3, 1, 1},
    {"1x1", {1, 16, 12, 12}, 8, 1, 0, 1},
    {"5x5 in steps of 2", {1, 3, 17, 15}, 4, 5, 2, 2},
};

static std::vector<double> convolved(const std::vector<double> &x, const Tensor &xs, const std::vector<double> &w,
                                     const Tensor &ws, const Tensor &ys, int pad, int stride) {
  std::vector<double> y(ys.count());
  for (int n = 0; n < ys.n; ++n)
    for (int k = 0; k < ys.c; ++k)
      for (int oh = 0; oh < ys.h; ++oh)
        for (int ow = 0; ow < ys.w; ++ow) {
          double sum = 0;
          for (int c = 0; c < xs.c; ++c)
            for (int r = 0; r < ws.h; ++r)
              for (int s = 0; s < ws.w; ++s) {
                int ih = oh * stride - pad + r, iw = ow * stride - pad + s;
                if (ih >= 0 && ih < xs.h && iw >= 0 && iw < xs.w)
                  sum += x[xs.at(n, c, ih, iw)] * w[ws.at(k, c, r, s)];
              }
          y[ys.at(n, k, oh, ow)] = sum;
        }
  return y;
}

template <typename T> static std::vector<double> values(const std::vector<T> &numbers) {
  std::vector<double> result;
  for (T number : numbers)
    result.push_back(value(number));
  return result;
}

template <typename T>
static void convolve(Cases &cases, miopenHandle_t handle, miopenDataType_t type, const Convolution &it,
                     const std::string &name, double tolerance) {
  Tensor ws{it.filters, it.x.c, it.size, it.size};
  Tensor ys{it.x.n, it.filters, (it.x.h + 2 * it.pad - it.size) / it.stride + 1,
            (it.x.w + 2 * it.pad - it.size) / it.stride + 1};
  auto x = numbers<T>(it.x.count(), 1), w = numbers<T>(ws.count(), 2);
  auto wanted = convolved(values(x), it.x, values(w), ws, ys, it.pad, it.stride);

  Description xd(it.x, type), wd(ws, type), yd(ys, type);
  miopenConvolutionDescriptor_t convolution;
  OK(miopenCreateConvolutionDescriptor(&convolution));
  OK(miopenInitConvolutionDescriptor(convolution, miopenConvolution, it.pad, it.pad, it.stride, it.stride, 1, 1));
  int n, c, h, width;
  OK(miopenGetConvolutionForwardOutputDim(convolution, xd, wd, &n, &c, &h, &width));
  if (n != ys.n || c != ys.c || h != ys.h || width != ys.w)
    throw std::runtime_error("the library expects a result of another size");

  size_t count = 0;
  OK(miopenConvolutionForwardGetSolutionCount(handle, wd, xd, convolution, yd, &count));
  std::vector<miopenConvSolution_t> solutions(count);
  OK(miopenConvolutionForwardGetSolution(handle, wd, xd, convolution, yd, count, &count, solutions.data()));
  solutions.resize(count);
  if (solutions.empty())
    throw std::runtime_error("the library offers no kernel");
  DeviceArray<T> dx(x), dw(w);
  for (const auto &solution : solutions)
    cases.run(name + ", " + name_of(solution.algorithm) + " " + std::to_string(solution.solution_id), [&] {
      DeviceArray<T> dy(ys.count());
      DeviceArray<char> workspace(solution.workspace_size);
      OK(miopenConvolutionForwardCompileSolution(handle, wd, xd, convolution, yd, solution.solution_id));
      OK(miopenConvolutionForwardImmediate(handle, wd, dw.get(), xd, dx.get(), convolution, yd, dy.get(),
                                           workspace.get(), solution.workspace_size, solution.solution_id));
      OK(hipDeviceSynchronize());
      expect_near(dy.read(), wanted, tolerance);
    });
  OK(miopenDestroyConvolutionDescriptor(convolution));
}

static void pool(miopenHandle_t handle, miopenPoolingMode_t mode) {
  const Tensor xs{2, 5, 15, 13}, ys{2, 5, 8, 7};
  const int size = 3, pad = 1, stride = 2;
  auto x = numbers<float>(xs.count(), 1);
  std::vector<double> wanted(ys.count());
  for (int n = 0; n < ys.n; ++n)
    for (int c = 0; c < ys.c; ++c)
      for (int oh = 0; oh < ys.h; ++oh)
        for (int ow = 0; ow < ys.w; ++ow) {
          double most = -INFINITY, sum = 0;
          int inside = 0;
          for (int r = 0; r < size; ++r)
            for (int s = 0; s < size; ++s) {
              int ih = oh * stride - pad + r, iw = ow * stride - pad + s;
              if (ih < 0 || ih >= xs.h || iw < 0 || iw >= xs.w)
                continue;
              most = std::fmax(most, x[xs.at(n, c, ih, iw)]);
              sum += x[xs.at(n, c, ih, iw)];
              ++inside;
            }
          wanted[ys.at(n, c, oh, ow)] = mode == miopenPoolingMax ? most : sum / inside;
        }
  Description xd(xs, miopenFloat), yd(ys, miopenFloat);
  miopenPoolingDescriptor_t pooling;
  OK(miopenCreatePoolingDescriptor(&pooling));
  OK(miopenSet2dPoolingDescriptor(pooling, mode, size, size, pad, pad, stride, stride));
  const float alpha = 1, beta = 0;
  DeviceArray<float> dx(x), dy(ys.count());
  OK(miopenPoolingForward(handle, pooling, &alpha, xd, dx.get(), &beta, yd, dy.get(), false, nullptr, 0));
  OK(hipDeviceSynchronize());
  expect_near(dy.read(), wanted, 1e-6);
  OK(miopenDestroyPoolingDescriptor(pooling));
}

static void soften(miopenHandle_t handle, miopenSoftmaxAlgorithm_t algorithm, miopenSoftmaxMode_t mode) {
  const Tensor shape{6, 37, 3, 2};
  auto x = numbers<float>(shape.count(), 1);
  const int image = shape.c * shape.h * shape.w, plane = shape.h * shape.w;
  const bool by_channel = mode == MIOPEN_SOFTMAX_MODE_CHANNEL;
  std::vector<double> sums(static_cast<size_t>(shape.n) * plane);
  auto group = [&](size_t i) { return i / image * plane + (by_channel ? i % plane : 0); };
  for (size_t i = 0; i < x.size(); ++i)
    sums[group(i)] += std::exp(value(x[i]));
  std::vector<double> wanted;
  for (size_t i = 0; i < x.size(); ++i) {
    double share = std::exp(value(x[i])) / sums[group(i)];
    wanted.push_back(algorithm == MIOPEN_SOFTMAX_LOG ? std::log(share) : share);
  }
  Description description(shape, miopenFloat);
  const float alpha = 1, beta = 0;
  DeviceArray<float> dx(x), dy(shape.count());
  OK(miopenSoftmaxForward_V2(handle, &alpha, description, dx.get(), &beta, description, dy.get(), algorithm, mode));
  OK(hipDeviceSynchronize());
  expect_near(dy.read(), wanted, 1e-5);
}

static void activate(miopenHandle_t handle, miopenActivationMode_t mode, double (*wanted_of)(double)) {
  const Tensor shape{2, 3, 9, 11};
  auto x = numbers<float>(shape.count(), 1);
  std::vector<double> wanted;
  for (float number : x)
    wanted.push_back(wanted_of(number));
  Description description(shape, miopenFloat);
  miopenActivationDescriptor_t activation;
  OK(miopenCreateActivationDescriptor(&activation));
  OK(miopenSetActivationDescriptor(activation, mode, 1, 1, 1));
  const float alpha = 1, beta = 0;
  DeviceArray<float> dx(x), dy(shape.count());
  OK(miopenActivationForward(handle, activation, &alpha, description, dx.get(), &beta, description, dy.get()));
  OK(hipDeviceSynchronize());
  expect_near(dy.read(), wanted, 1e-5);
  OK(miopenDestroyActivationDescriptor(activation));
}

int main(int count, char **arguments) {
  Cases cases(count, arguments);
  miopenHandle_t handle = nullptr;
  cases.always("create", [&] { OK(miopenCreate(&handle)); });
  cases.run("pooling max", [&] { pool(handle, miopenPoolingMax); });
  cases.run("pooling average", [&] { pool(handle, miopenPoolingAverage); });
  cases.run("softmax by instance", [&] { soften(handle, MIOPEN_SOFTMAX_ACCURATE, MIOPEN_SOFTMAX_MODE_INSTANCE); });
  cases.run("softmax by channel", [&] { soften(handle, MIOPEN_SOFTMAX_ACCURATE, MIOPEN_SOFTMAX_MODE_CHANNEL); });
  cases.run("log softmax", [&] { soften(handle, MIOPEN_SOFTMAX_LOG, MIOPEN_SOFTMAX_MODE_INSTANCE); });
  cases.run("activation relu", [&] { activate(handle, miopenActivationRELU, [](double x) { return std::fmax(x, 0); }); });
  cases.run("activation tanh", [&] { activate(handle, miopenActivationTANH, [](double x) { return std::tanh(x); }); });
  for (const Convolution &it : CONVOLUTIONS) {
    std::string name = std::string("convolution ") + it.name, offered = "kernels are offered for ";
    cases.always(offered + name + " f32", [&] { convolve<float>(cases, handle, miopenFloat, it, name + " f32", 1e-4); });
    cases.always(offered + name + " f16", [&] { convolve<Half>(cases, handle, miopenHalf, it, name + " f16", 4e-3); });
  }
  cases.always("destroy", [&] { OK(miopenDestroy(handle)); });
  return cases.end();
}

/* select_support.h -- what the test and the benchmark of the index scan and top-k share. */
#ifndef KVT_SELECT_SUPPORT_H
#define KVT_SELECT_SUPPORT_H

#include "../../backend_cuda/launch.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

/* Ends the program: nothing after a failed call of the runtime says anything. */
#define CUDA(call)                                                                                 \
    do {                                                                                           \
        cudaError_t cuda_error = (call);                                                           \
        if (cuda_error != cudaSuccess) {                                                           \
            std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                              \
                        cudaGetErrorName(cuda_error));                                             \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

template <typename T> class device_array
{
    T *data = nullptr;
    size_t length;

  public:
    explicit device_array(size_t count) : length(count)
    {
        CUDA(cudaMalloc(&data, (count > 0 ? count : 1) * sizeof(T)));
    }
    explicit device_array(const std::vector<T> &from) : device_array(from.size())
    {
        CUDA(cudaMemcpy(data, from.data(), length * sizeof(T), cudaMemcpyHostToDevice));
    }
    device_array(const device_array &) = delete;
    device_array &operator=(const device_array &) = delete;
    ~device_array()
    {
        cudaFree(data);
    }
    T *get() const
    {
        return data;
    }
    void fill(int byte)
    {
        CUDA(cudaMemset(data, byte, length * sizeof(T)));
    }
    std::vector<T> read() const
    {
        std::vector<T> to(length);
        CUDA(cudaMemcpy(to.data(), data, length * sizeof(T), cudaMemcpyDeviceToHost));
        return to;
    }
};

/* Ends the program with 77 where there is no device. */
static inline void need_device()
{
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
        std::printf("skipped: no CUDA device\n");
        std::exit(77);
    }
}

#endif

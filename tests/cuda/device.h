/* cuda/device.h -- what device tests and benchmarks share: a verdict, a device, a clock. */
#ifndef KVT_TESTS_CUDA_DEVICE_H
#define KVT_TESTS_CUDA_DEVICE_H

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

namespace device
{

enum {
    SKIPPED = 77
};

/* Ends the program with status 77 where no device can be used. */
inline void require()
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
        std::printf("skipped: no CUDA device (%s)\n", cudaGetErrorString(error));
        std::exit(SKIPPED);
    }
}

/* A CUDA call that must succeed for the test to mean anything. */
inline void must(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    std::printf("failed: %s: %s (%s)\n", what, cudaGetErrorName(error), cudaGetErrorString(error));
    std::printf("0 passed, 1 failed\n");
    std::fflush(stdout);
    std::exit(1);
}

/* Counts verdicts; a failed one says what, where, expected and found in its format. */
struct tally {
    int passed = 0, failed = 0;

    __attribute__((format(printf, 3, 4))) bool check(bool holds, const char *format, ...)
    {
        (holds ? passed : failed)++;
        if (!holds) {
            std::va_list arguments;
            va_start(arguments, format);
            std::printf("failed: ");
            std::vprintf(format, arguments);
            std::printf("\n");
            std::fflush(stdout);
            va_end(arguments);
        }
        return holds;
    }
    /* The closing line; what main() returns. */
    int close() const
    {
        std::printf("%d passed, %d failed\n", passed, failed);
        return failed == 0 ? 0 : 1;
    }
};

/* [count] of T on the device (or pinned on the host), released with the object. */
template <typename T> class array
{
  public:
    explicit array(size_t count, bool pinned = false) : count_(count), pinned_(pinned)
    {
        if (pinned)
            must(cudaHostAlloc((void **)&data_, count * sizeof(T), cudaHostAllocMapped),
                 "cudaHostAlloc");
        else
            must(cudaMalloc((void **)&data_, count * sizeof(T)), "cudaMalloc");
    }
    explicit array(const std::vector<T> &from) : array(from.size())
    {
        must(cudaMemcpy(data_, from.data(), bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
    }
    array(const array &) = delete;
    array &operator=(const array &) = delete;
    ~array()
    {
        if (pinned_)
            (void)cudaFreeHost(data_);
        else
            (void)cudaFree(data_);
    }
    T *get() const
    {
        return data_;
    }
    size_t bytes() const
    {
        return count_ * sizeof(T);
    }
    /* Every byte the same: 0xff is NaN as a float and -1 as an integer. */
    void poison(int byte = 0xff)
    {
        must(cudaMemset(data_, byte, bytes()), "cudaMemset");
    }
    std::vector<T> read() const
    {
        std::vector<T> out(count_);
        must(cudaMemcpy(out.data(), data_, bytes(), cudaMemcpyDeviceToHost), "cudaMemcpy");
        return out;
    }

  private:
    T *data_ = nullptr;
    size_t count_;
    bool pinned_;
};

/* Microseconds of one call of enqueue(i, stream), i = 0 .. launches - 1 in turn, which one graph
 * holds: of each of `repeats` replays, behind two that are not counted; sorted. */
inline std::vector<double> timings_us(int launches, int repeats,
                                      const std::function<cudaError_t(int, cudaStream_t)> &enqueue)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    cudaEvent_t begin, end;
    std::vector<double> us;

    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < launches; i++)
        must(enqueue(i, stream), "a captured launch");
    must(cudaStreamEndCapture(stream, &graph), "the end of capture");
    must(cudaGraphInstantiate(&replay, graph, 0), "cudaGraphInstantiate");
    must(cudaEventCreate(&begin), "cudaEventCreate");
    must(cudaEventCreate(&end), "cudaEventCreate");
    for (int i = 0; i < repeats + 2; i++) {
        float ms = 0;
        must(cudaEventRecord(begin, stream), "cudaEventRecord");
        must(cudaGraphLaunch(replay, stream), "cudaGraphLaunch");
        must(cudaEventRecord(end, stream), "cudaEventRecord");
        must(cudaEventSynchronize(end), "a replay");
        must(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
        if (i >= 2)
            us.push_back(1e3 * ms / launches);
    }
    (void)cudaEventDestroy(begin);
    (void)cudaEventDestroy(end);
    (void)cudaGraphExecDestroy(replay);
    (void)cudaGraphDestroy(graph);
    (void)cudaStreamDestroy(stream);
    std::sort(us.begin(), us.end());
    return us;
}

/* Their median. */
inline double median_us(int launches, int repeats,
                        const std::function<cudaError_t(int, cudaStream_t)> &enqueue)
{
    return timings_us(launches, repeats, enqueue)[(size_t)repeats / 2];
}

/* One line of results: a floor is bytes or operations over a measured ceiling. */
inline void print_row(const char *name, double us, double floor_us)
{
    std::printf("{\"name\": \"%s\", \"us\": %.2f, \"floor_us\": %.2f, \"ratio\": %.3f}\n", name, us,
                floor_us, us / floor_us);
    std::fflush(stdout);
}

} // namespace device

#endif

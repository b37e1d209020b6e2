/* bench_link.cu -- what GPUs of one host read from its memory, each alone and all at once
 * (docs/cuda.md, "Several GPUs").
 *
 *     for each size of a row: every GPU alone, then all: a GPU copies rows that lie in no order,
 *     from pinned memory of its own, for a third of a second; bytes over that time */
#include "cuda/device.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>

#include "rows.h"

namespace
{

constexpr uint64_t POOL_BYTES = (uint64_t)4 << 30;
constexpr uint32_t COPIES = 65536; /* of one launch */
constexpr int LAUNCHES = 4;        /* of one replay, each with rows of its own */
constexpr double WINDOW_S = 0.33;

/* A GPU, its pinned rows, and a graph that copies some of them. */
struct puller {
    int gpu;
    uint8_t *host = nullptr;

    explicit puller(int gpu) : gpu(gpu)
    {
        device::must(cudaSetDevice(gpu), "cudaSetDevice");
        device::must(cudaHostAlloc((void **)&host, POOL_BYTES, cudaHostAllocMapped), "host rows");
    }
    puller(const puller &) = delete;
    puller &operator=(const puller &) = delete;
    ~puller()
    {
        (void)cudaFreeHost(host);
    }

    /* Waits for `together` pullers, then GB/s. */
    double run(uint32_t row_bytes, std::atomic<int> &waiting, int together) const
    {
        using clock = std::chrono::steady_clock;
        const uint32_t copies = std::min<uint64_t>(COPIES, ((uint64_t)128 << 20) / row_bytes);
        std::mt19937_64 random((uint64_t)gpu + row_bytes);
        std::vector<struct kvt_gpu_copy> list((size_t)copies * LAUNCHES);
        cudaStream_t stream;
        cudaGraph_t graph;
        cudaGraphExec_t replay;

        device::must(cudaSetDevice(gpu), "cudaSetDevice");
        device::array<uint8_t> rows((size_t)copies * row_bytes);
        for (size_t i = 0; i < list.size(); i++) {
            list[i] = {};
            list[i].src = host + random() % (POOL_BYTES / row_bytes) * row_bytes;
            list[i].dst = rows.get() + i % copies * row_bytes;
            list[i].bytes = row_bytes;
        }
        device::array<struct kvt_gpu_copy> device_list(list);
        device::must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
        device::must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
        for (int i = 0; i < LAUNCHES; i++)
            device::must(kvt_gpu_copy(device_list.get() + (size_t)i * copies, copies, stream),
                         "a copy");
        device::must(cudaStreamEndCapture(stream, &graph), "the end of capture");
        device::must(cudaGraphInstantiate(&replay, graph, 0), "cudaGraphInstantiate");
        device::must(cudaGraphLaunch(replay, stream), "a replay");
        device::must(cudaStreamSynchronize(stream), "a replay");

        waiting++;
        while (waiting < together)
            std::this_thread::yield();
        const clock::time_point begin = clock::now();
        uint64_t replays = 0;
        double elapsed_s = 0;
        do {
            device::must(cudaGraphLaunch(replay, stream), "a replay");
            device::must(cudaGraphLaunch(replay, stream), "a replay");
            device::must(cudaStreamSynchronize(stream), "a replay");
            replays += 2;
            elapsed_s = std::chrono::duration<double>(clock::now() - begin).count();
        } while (elapsed_s < WINDOW_S);
        (void)cudaGraphExecDestroy(replay);
        (void)cudaGraphDestroy(graph);
        (void)cudaStreamDestroy(stream);
        return 1e-9 * (double)(replays * list.size() * row_bytes) / elapsed_s;
    }
};

/* Of pullers[first], pullers[first + 1] .. at once. */
std::vector<double> pull(const std::vector<std::unique_ptr<puller>> &pullers, size_t first,
                         size_t count, uint32_t row_bytes)
{
    std::vector<double> rates(count);
    std::vector<std::thread> threads;
    std::atomic<int> waiting{0};

    for (size_t i = 0; i < count; i++)
        threads.emplace_back(
            [&, i] { rates[i] = pullers[first + i]->run(row_bytes, waiting, (int)count); });
    for (std::thread &thread : threads)
        thread.join();
    return rates;
}

} // namespace

int main()
{
    int gpus = 0;

    device::require();
    device::must(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
    std::vector<std::unique_ptr<puller>> pullers;
    for (int gpu = 0; gpu < gpus; gpu++)
        pullers.push_back(std::make_unique<puller>(gpu));
    for (uint32_t row_bytes : {288u, 576u, 2304u, 147456u}) {
        std::vector<double> alone;
        for (size_t gpu = 0; gpu < pullers.size(); gpu++)
            alone.push_back(pull(pullers, gpu, 1, row_bytes)[0]);
        std::vector<double> together = pull(pullers, 0, pullers.size(), row_bytes);
        for (size_t gpu = 0; gpu < pullers.size(); gpu++)
            std::printf("{\"name\": \"copies of %u B, GPU %zu of %d\", \"alone_gb_per_s\": %.2f, "
                        "\"together_gb_per_s\": %.2f, \"ratio\": %.3f}\n",
                        row_bytes, gpu, gpus, alone[gpu], together[gpu],
                        together[gpu] / alone[gpu]);
        std::fflush(stdout);
    }
    return 0;
}

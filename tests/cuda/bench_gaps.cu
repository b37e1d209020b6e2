/* bench_gaps.cu -- how much of a step no kernel runs, and between which kernels.
 *
 *     run     `kvtide validate SCENARIO`, in this process: what steps take by themselves
 *     again   with CUPTI's record of every kernel: when it began and ended, by which graph launch
 *     for each launch
 *         idle = (last end - first begin) - |union of the kernels' times|
 *
 * A record makes the way from one kernel to the next longer, and no kernel shorter: the share that
 * is idle while recorded is above the one that is idle without. What is idle at least is what the
 * recorded kernels leave of a step that was not recorded.
 *
 * Usage: bench_gaps [SCENARIO [option of kvtide validate]..]; KVT_DATA as for kvtide. */
#include <cuda_runtime_api.h>
#if __has_include(<cupti.h>)
#include <cupti.h>
#define HAS_CUPTI 1
#else
#define HAS_CUPTI 0
#endif
#include <cxxabi.h>
#include <dlfcn.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

#include "cuda/device.h"

extern "C" {
#include "cli/cli.h"
}

namespace
{

const char *const DEFAULT_SCENARIO = "validation/scenarios/h200-glm-5.3-100k.json";
const char *const DEFAULT_OPTIONS[] = {"--steps", "100", "--threads", "16"};

#if HAS_CUPTI

#if CUPTI_API_VERSION >= 130000
using kernel_record = CUpti_ActivityKernel10;
#else
using kernel_record = CUpti_ActivityKernel9;
#endif

/* ---- Records -------------------------------------------------------------------------- */

/* A node of a graph that was launched. */
struct node {
    uint64_t begin_ns, end_ns;
    uint32_t launch;
    uint32_t name;
    bool is_kernel; /* else a copy, or memory set */
};

struct {
    std::mutex mutex;
    std::vector<node> nodes;
    std::map<std::string, uint32_t> numbers;
    std::vector<std::string> names;
    size_t dropped = 0;
} record;

struct {
    decltype(&cuptiActivityEnable) enable;
    decltype(&cuptiActivityRegisterCallbacks) register_callbacks;
    decltype(&cuptiActivityFlushAll) flush;
    decltype(&cuptiActivityGetNextRecord) next;
    decltype(&cuptiActivityGetNumDroppedRecords) dropped;
} cupti;

/* Where the loader, the toolkit or Python's packages have it. */
void *open_cupti()
{
    const std::string name = "libcupti.so." + std::to_string(CUPTI_API_VERSION / 10000);
    const char *const folders[] = {"/usr/local/cuda/lib64/",
                                   "/usr/local/cuda/extras/CUPTI/lib64/",
                                   "/usr/local/cuda-*/extras/CUPTI/lib64/",
                                   "/usr/local/lib/python3*/*-packages/nvidia/c*/lib/",
                                   "/opt/*/.venv/lib/python3*/site-packages/nvidia/c*/lib/",
                                   "/opt/*/lib/python3*/site-packages/nvidia/c*/lib/"};
    void *object = dlopen(name.c_str(), RTLD_NOW);

    for (const char *folder : folders) {
        glob_t found;
        if (object || glob((folder + name).c_str(), 0, nullptr, &found) != 0)
            continue;
        for (size_t i = 0; !object && i < found.gl_pathc; i++)
            object = dlopen(found.gl_pathv[i], RTLD_NOW);
        globfree(&found);
    }
    return object;
}

template <typename T> bool find(void *object, const char *name, T *call)
{
    *call = (T)dlsym(object, name);
    return *call != nullptr;
}

bool find_cupti()
{
    void *object = open_cupti();

    return object && find(object, "cuptiActivityEnable", &cupti.enable) &&
           find(object, "cuptiActivityRegisterCallbacks", &cupti.register_callbacks) &&
           find(object, "cuptiActivityFlushAll", &cupti.flush) &&
           find(object, "cuptiActivityGetNextRecord", &cupti.next) &&
           find(object, "cuptiActivityGetNumDroppedRecords", &cupti.dropped);
}

/* Without its types and parameters. */
std::string short_name(const char *mangled)
{
    int status = 0;
    char *plain = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
    std::string name = status == 0 ? plain : mangled;

    std::free(plain);
    for (const char *prefix : {"void ", "(anonymous namespace)::", "<unnamed>::"}) {
        size_t at = name.find(prefix);
        if (at != std::string::npos)
            name.erase(0, at + std::strlen(prefix));
    }
    return name.substr(0, std::min<size_t>(name.find_first_of("<("), 48));
}

template <typename T> void keep(const T &of, const char *name, bool is_kernel)
{
    auto [at, is_new] = record.numbers.emplace(name, (uint32_t)record.names.size());

    if (is_new)
        record.names.push_back(short_name(name));
    if (of.graphId != 0)
        record.nodes.push_back({of.start, of.end, of.correlationId, at->second, is_kernel});
}

void keep(const CUpti_Activity *activity)
{
    if (activity->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
        keep(*(const kernel_record *)activity, ((const kernel_record *)activity)->name, true);
    else if (activity->kind == CUPTI_ACTIVITY_KIND_MEMCPY)
        keep(*(const CUpti_ActivityMemcpy6 *)activity, "copy", false);
    else if (activity->kind == CUPTI_ACTIVITY_KIND_MEMSET)
        keep(*(const CUpti_ActivityMemset4 *)activity, "set", false);
}

void CUPTIAPI give_buffer(uint8_t **buffer, size_t *bytes, size_t *records_max)
{
    *bytes = 8 << 20;
    *buffer = (uint8_t *)std::aligned_alloc(8, *bytes);
    *records_max = 0;
}

void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t,
                          size_t valid_bytes)
{
    std::lock_guard<std::mutex> guard(record.mutex);
    CUpti_Activity *activity = nullptr;
    size_t dropped = 0;

    while (cupti.next(buffer, valid_bytes, &activity) == CUPTI_SUCCESS)
        keep(activity);
    if (cupti.dropped(context, stream, &dropped) == CUPTI_SUCCESS)
        record.dropped += dropped;
    std::free(buffer);
}

/* ---- Gaps ----------------------------------------------------------------------------- */

struct gaps {
    double ns = 0;
    uint64_t count = 0;
};

struct step {
    double ns, busy_ns;
    size_t kernels;
};

/* Nodes of one launch, in the order in which they began. */
step measure(const node *nodes, size_t count, std::map<std::string, gaps> &between)
{
    uint64_t begin = 0, end = 0, idle_ns = 0;
    std::string last;
    size_t kernels = 0;

    for (size_t n = 0; n < count; n++) {
        const node &next = nodes[n];
        if (!next.is_kernel) {
            last += " | " + record.names[next.name];
            continue;
        }
        begin = kernels++ == 0 ? next.begin_ns : begin;
        if (kernels > 1 && next.begin_ns > end) {
            gaps &gap = between[last + " | " + record.names[next.name]];
            gap.ns += (double)(next.begin_ns - end);
            gap.count++;
            idle_ns += next.begin_ns - end;
        }
        if (next.end_ns > end) {
            end = next.end_ns;
            last = record.names[next.name];
        }
    }
    double ns = (double)(end - begin);
    return {ns, ns - (double)idle_ns, kernels};
}

/* Steps in their order, without those that hold events between their families: the first of each
 * sixteen and the one behind it (docs/cuda.md). */
std::vector<step> list_steps(std::map<std::string, gaps> &between)
{
    std::vector<node> &all = record.nodes;
    std::vector<step> steps;
    size_t number = 0;

    std::sort(all.begin(), all.end(), [](const node &a, const node &b) {
        return a.launch != b.launch ? a.launch < b.launch : a.begin_ns < b.begin_ns;
    });
    for (size_t first = 0, end; first < all.size(); first = end, number++) {
        for (end = first; end < all.size() && all[end].launch == all[first].launch;)
            end++;
        if (number % 16 > 1)
            steps.push_back(measure(&all[first], end - first, between));
    }
    return steps;
}

double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[values.size() / 2];
}

/* ---- Runs ----------------------------------------------------------------------------- */

/* Of the column that says so, the median in us over the steps that were measured. */
double median_step_us(const std::string &path)
{
    std::ifstream file(path);
    std::string line, cell;
    std::vector<double> us;
    int wanted = -1, number = 0;

    for (bool is_head = true; std::getline(file, line); is_head = false) {
        std::stringstream cells(line);
        for (int column = 0; std::getline(cells, cell, ','); column++) {
            if (is_head && cell == "measured_ns")
                wanted = column;
            else if (!is_head && column == wanted && !cell.empty() && number++ % 16 > 1)
                us.push_back(std::atof(cell.c_str()) / 1e3);
        }
    }
    return median(us);
}

/* What the command's steps took; 0 where it did not say yes. */
double run_us(const std::vector<const char *> &words)
{
    char folder[] = "/tmp/bench_gaps.XXXXXX";
    const struct cli_command command = {"validate", "", "", kvt_cmd_validate};
    std::vector<char *> arguments = {(char *)"validate", (char *)"--quiet", (char *)"--out",
                                     mkdtemp(folder)};

    for (const char *word : words)
        arguments.push_back((char *)word);
    arguments.push_back(nullptr);
    int code = kvt_cmd_validate(&command, (int)arguments.size() - 1, arguments.data());
    const std::string inside = std::string(folder) + "/";
    double us = median_step_us(inside + "steps.csv");
    for (const char *name : {"steps.csv", "validate.json"})
        (void)std::remove((inside + name).c_str());
    (void)rmdir(folder);
    return code == CLI_DONE ? us : 0;
}

int print(double alone_us, double recorded_us)
{
    std::map<std::string, gaps> between;
    std::vector<step> steps = list_steps(between);
    std::vector<double> us, busy_us, share, count;

    for (const step &each : steps) {
        us.push_back(each.ns / 1e3);
        busy_us.push_back(each.busy_ns / 1e3);
        share.push_back(1 - each.busy_ns / each.ns);
        count.push_back((double)each.kernels);
    }
    if (steps.empty() || alone_us <= 0 || recorded_us <= 0) {
        std::printf("failed: %zu steps were recorded\n", steps.size());
        return 1;
    }
    std::printf("{\"name\": \"gaps\", \"steps\": %zu, \"kernels\": %.0f, \"us\": %.1f, "
                "\"recorded_us\": %.1f, \"span_us\": %.1f, \"busy_us\": %.1f, "
                "\"idle_share_at_most\": %.4f, \"idle_share_at_least\": %.4f, \"dropped\": %zu}\n",
                steps.size(), median(count), alone_us, recorded_us, median(us), median(busy_us),
                median(share), std::max(0.0, 1 - median(busy_us) / alone_us), record.dropped);
    std::vector<std::pair<std::string, gaps>> order(between.begin(), between.end());
    std::sort(order.begin(), order.end(),
              [](const auto &a, const auto &b) { return a.second.ns > b.second.ns; });
    order.resize(std::min<size_t>(order.size(), 24));
    for (const auto &[names, gap] : order)
        std::printf("  %6.1f us a step, %6.2f us each: %s\n", gap.ns / 1e3 / (double)steps.size(),
                    gap.ns / 1e3 / (double)gap.count, names.c_str());
    return 0;
}

int bench(const std::vector<const char *> &words)
{
    if (!find_cupti()) {
        std::printf("skipped: no CUPTI on this machine\n");
        return device::SKIPPED;
    }
    double alone_us = run_us(words);
    if (cupti.register_callbacks(give_buffer, take_buffer) != CUPTI_SUCCESS ||
        cupti.enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS ||
        cupti.enable(CUPTI_ACTIVITY_KIND_MEMCPY) != CUPTI_SUCCESS ||
        cupti.enable(CUPTI_ACTIVITY_KIND_MEMSET) != CUPTI_SUCCESS) {
        std::printf("skipped: CUPTI records no kernels on this machine\n");
        return device::SKIPPED;
    }
    double recorded_us = run_us(words);
    (void)cupti.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    std::lock_guard<std::mutex> guard(record.mutex);
    return print(alone_us, recorded_us);
}

#else

int bench(const std::vector<const char *> &)
{
    std::printf("skipped: built without CUPTI's headers\n");
    return device::SKIPPED;
}

#endif

} // namespace

int main(int argc, char **argv)
{
    std::vector<const char *> words(argv + 1, argv + argc);

    device::require();
    if (words.empty())
        words.push_back(DEFAULT_SCENARIO);
    if (words.size() == 1)
        words.insert(words.end(), std::begin(DEFAULT_OPTIONS), std::end(DEFAULT_OPTIONS));
    return bench(words);
}

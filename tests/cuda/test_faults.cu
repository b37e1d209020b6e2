/* test_faults.cu -- what goes wrong on a GPU, provoked: each failure ends in one sentence and its
 * exit status, in good time, with nothing half written and nothing left on the device.
 *
 * This program is kvtide too. It starts itself once for each case, with a fault in mind: what the
 * backend calls of CUDA's runtime and of its own launchers goes through this file (ld --wrap),
 * where the fault happens in the call that the case names. All else is as in kvtide.
 *
 * Usage: test_faults [case ..]; from the folder that has validation/scenarios. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "cuda/device.h"
#include "kvt/clock.h"
#include "launch.h"

extern "C" {
#include "cli/cli.h"

cudaError_t __real_cudaMalloc(void **data, size_t bytes);
cudaError_t __real_cudaHostRegister(void *data, size_t bytes, unsigned flags);
cudaError_t __real_cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t __real_kvt_gpu_resolve(const struct kvt_gpu_resolve *resolve, cudaStream_t stream);
double __real_kvt_wall_seconds_since(struct kvt_wall start);
}

namespace
{

/* ---- Faults --------------------------------------------------------------------------- */

enum fault {
    NOTHING,
    MEMORY_IS_TAKEN, /* by somebody else, from the beginning */
    MEMORY_GOES,     /* between the look at how much is free and cudaMalloc() */
    PINNING_REFUSED, /* of a piece of host rows */
    LAUNCH_REFUSED,  /* of a block of more threads than there can be */
    KERNEL_TRAPS,    /* in a step's graph, as the following */
    ADDRESS_ILLEGAL,
    ADDRESS_MISALIGNED,
    KERNEL_HANGS,
    DEVICE_LOST,     /* as the runtime says it: nothing here takes a GPU off its bus */
    STOPPED_PINNING, /* SIGTERM */
    STOPPED_RUNNING
};

/* The call in which it happens, from 1 on, of those that it can happen in. */
fault planned = NOTHING;
unsigned planned_call = 0, calls = 0;

bool is_due(fault what)
{
    return planned == what && ++calls == planned_call;
}

__global__ void trap()
{
    __trap();
}
__global__ void write_to(uint64_t address)
{
    *(volatile uint32_t *)address = 1;
}
__global__ void hang()
{
    while (true)
        __nanosleep(1000);
}

/* All of the device's memory but so much, until the process ends. */
void take_memory(size_t left_bytes)
{
    size_t free_bytes = 0, total_bytes = 0;
    void *taken;

    device::must(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    for (size_t piece = (size_t)1 << 36; piece >= (size_t)1 << 20; piece /= 2) {
        while (free_bytes >= left_bytes + piece && __real_cudaMalloc(&taken, piece) == cudaSuccess)
            device::must(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    }
    (void)cudaGetLastError();
}

/* What a step's graph gets beside its own launches. */
cudaError_t add_fault(cudaStream_t stream)
{
    if (is_due(LAUNCH_REFUSED))
        trap<<<1, 4096, 0, stream>>>();
    else if (is_due(KERNEL_TRAPS))
        trap<<<1, 1, 0, stream>>>();
    else if (is_due(ADDRESS_ILLEGAL))
        write_to<<<1, 1, 0, stream>>>(64);
    else if (is_due(ADDRESS_MISALIGNED))
        write_to<<<1, 1, 0, stream>>>(65);
    else if (is_due(KERNEL_HANGS))
        hang<<<1, 1, 0, stream>>>();
    return cudaGetLastError();
}

} // namespace

extern "C" {

cudaError_t __wrap_cudaMalloc(void **data, size_t bytes)
{
    if (is_due(MEMORY_GOES))
        take_memory(2 << 20);
    return __real_cudaMalloc(data, bytes);
}
cudaError_t __wrap_cudaHostRegister(void *data, size_t bytes, unsigned flags)
{
    if (is_due(PINNING_REFUSED))
        return cudaErrorMemoryAllocation;
    if (is_due(STOPPED_PINNING))
        (void)raise(SIGTERM);
    return __real_cudaHostRegister(data, bytes, flags);
}
cudaError_t __wrap_cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    if (is_due(DEVICE_LOST))
        return cudaErrorUnknown;
    if (is_due(STOPPED_RUNNING))
        (void)raise(SIGTERM);
    return __real_cudaGraphLaunch(exec, stream);
}
cudaError_t __wrap_kvt_gpu_resolve(const struct kvt_gpu_resolve *resolve, cudaStream_t stream)
{
    cudaError_t error = add_fault(stream);
    return error == cudaSuccess ? __real_kvt_gpu_resolve(resolve, stream) : error;
}
/* The two minutes that a step may take are over in three seconds where it never ends. */
double __wrap_kvt_wall_seconds_since(struct kvt_wall start)
{
    return __real_kvt_wall_seconds_since(start) * (planned == KERNEL_HANGS ? 40 : 1);
}

} // extern "C"

namespace
{

/* ---- Cases ---------------------------------------------------------------------------- */

enum leaves {
    NO_FILES,
    ALL_FILES,   /* of a run that came to its end */
    MARKED_FILES /* of one that was stopped */
};

const char *const SMALL = "validation/scenarios/lockstep-small.json";

struct fault_case {
    const char *name;
    fault what;
    unsigned call;
    int status;
    const char *words; /* of the sentence; NULL: there is none */
    leaves files;
    std::vector<const char *> sets = {};
};

const fault_case cases[] = {
    {"none", NOTHING, 0, CLI_DONE, nullptr, ALL_FILES},
    {"too-large",
     NOTHING,
     0,
     CLI_CANNOT,
     "GiB of device memory",
     NO_FILES,
     {"hardware=b300", "cluster.decode.pools.unified_gib=160", "workload.concurrency=700",
      "workload.requests=700", "backend.host_pool_gib=1000"}},
    {"memory-is-taken", MEMORY_IS_TAKEN, 1, CLI_CANNOT, "device memory", NO_FILES},
    {"memory-goes-probe", MEMORY_GOES, 1, CLI_CANNOT, "device memory", NO_FILES},
    {"memory-goes-dense", MEMORY_GOES, 2, CLI_CANNOT, "device memory", NO_FILES},
    {"memory-goes-rows", MEMORY_GOES, 3, CLI_CANNOT, "GiB are free", NO_FILES},
    {"memory-goes-tables", MEMORY_GOES, 4, CLI_CANNOT, "GiB are free", NO_FILES},
    {"pinning-refused", PINNING_REFUSED, 1, CLI_CANNOT, "pinned host memory", NO_FILES},
    {"launch-refused", LAUNCH_REFUSED, 1, CLI_CANNOT, "was refused", NO_FILES},
    {"kernel-traps", KERNEL_TRAPS, 1, CLI_CANNOT, "a kernel broke off", NO_FILES},
    {"address-illegal", ADDRESS_ILLEGAL, 30, CLI_CANNOT, "a kernel broke off", NO_FILES},
    {"address-misaligned", ADDRESS_MISALIGNED, 5, CLI_CANNOT, "a kernel broke off", NO_FILES},
    {"kernel-hangs", KERNEL_HANGS, 30, CLI_CANNOT, "has not ended within 120 s", NO_FILES},
    {"kernel-hangs-shared",
     KERNEL_HANGS,
     30,
     CLI_CANNOT,
     "has not ended within 120 s",
     NO_FILES,
     {"cluster.decode.gpus=2", "cluster.decode.dp=2", "cluster.decode.lockstep=true",
      "backend.devices=[0]"}},
    {"device-lost", DEVICE_LOST, 3, CLI_CANNOT, "the device was lost", NO_FILES},
    {"stopped-pinning",
     STOPPED_PINNING,
     1,
     CLI_NO,
     "stopped while pinning memory",
     NO_FILES,
     {"backend.shared_contexts=16"}},
    {"stopped-running", STOPPED_RUNNING, 8, CLI_NO, nullptr, MARKED_FILES},
};

const fault_case *find_case(const char *name)
{
    for (const fault_case &each : cases) {
        if (std::strcmp(each.name, name) == 0)
            return &each;
    }
    return nullptr;
}

/* ---- The command, with its fault ------------------------------------------------------ */

int be_kvtide(const fault_case &of, const char *folder)
{
    const struct cli_command command = {"run", "", "", kvt_cmd_run};
    std::vector<char *> words;

    for (const char *word : {"run", SMALL, "--quiet", "--json", "--threads", "4", "--out", folder})
        words.push_back((char *)word);
    for (const char *set : of.sets) {
        words.push_back((char *)"--set");
        words.push_back((char *)set);
    }
    int count = (int)words.size();
    words.push_back(nullptr);
    planned = of.what;
    planned_call = of.call;
    if (is_due(MEMORY_IS_TAKEN))
        take_memory((size_t)300 << 20);
    return cli_close(kvt_cmd_run(&command, count, words.data()));
}

/* ---- The test ------------------------------------------------------------------------- */

enum {
    CASE_LIMIT_S = 40,
    FREED_WITHIN_S = 10,
    MOVES_BYTES = 16 << 20
};

struct ending {
    bool ended; /* in time */
    int status; /* 128 and its signal where it was one's */
    std::string said;
    double seconds;
};

/* What comes through the pipe until it is closed or the time is up. */
std::string read_all(int pipe_end, const struct kvt_wall &start)
{
    std::string text;
    char some[4096];

    for (;;) {
        struct pollfd wait = {pipe_end, POLLIN, 0};
        double left_s = CASE_LIMIT_S - kvt_wall_seconds_since(start);
        if (left_s <= 0 || poll(&wait, 1, (int)(left_s * 1000) + 1) <= 0)
            return text;
        ssize_t bytes = read(pipe_end, some, sizeof some);
        if (bytes <= 0)
            return text;
        text.append(some, (size_t)bytes);
    }
}

ending wait_for(pid_t child, const struct kvt_wall &start)
{
    ending out = {};
    int state = 0;

    while (waitpid(child, &state, WNOHANG) == 0) {
        if (kvt_wall_seconds_since(start) > CASE_LIMIT_S) {
            (void)kill(child, SIGKILL);
            (void)waitpid(child, &state, 0);
            return out;
        }
        (void)usleep(1000);
    }
    out.ended = true;
    out.status = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    out.seconds = kvt_wall_seconds_since(start);
    return out;
}

ending start_case(const fault_case &of, const std::string &folder)
{
    struct kvt_wall start = kvt_wall_now();
    int ends[2];

    if (pipe(ends) != 0)
        return {};
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_RDWR);
        (void)dup2(nowhere, STDIN_FILENO);
        (void)dup2(nowhere, STDOUT_FILENO);
        (void)dup2(ends[1], STDERR_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)execl("/proc/self/exe", "test_faults", "--as-kvtide", of.name, folder.c_str(),
                    (char *)nullptr);
        _exit(127);
    }
    (void)close(ends[1]);
    std::string said = read_all(ends[0], start);
    (void)close(ends[0]);
    ending out = wait_for(child, start);
    out.said = said;
    return out;
}

std::vector<std::string> names_in(const std::string &folder)
{
    std::vector<std::string> names;
    DIR *dir = opendir(folder.c_str());

    for (struct dirent *entry; dir && (entry = readdir(dir)) != nullptr;) {
        if (entry->d_name[0] != '.' || std::strlen(entry->d_name) > 2)
            names.push_back(entry->d_name);
    }
    if (dir)
        (void)closedir(dir);
    std::sort(names.begin(), names.end());
    return names;
}

std::string read_file(const std::string &path)
{
    std::string text;
    char some[4096];
    std::FILE *file = std::fopen(path.c_str(), "r");

    for (size_t bytes; file && (bytes = std::fread(some, 1, sizeof some, file)) > 0;)
        text.append(some, bytes);
    if (file)
        (void)std::fclose(file);
    return text;
}

void check_files(const fault_case &of, const std::string &folder, device::tally &verdict)
{
    const std::vector<std::string> all = {"itl.csv", "report.html",  "requests.csv", "result.json",
                                          "run.log", "timeline.csv", "timeline.om"};
    std::vector<std::string> names = names_in(folder);
    const char *mark = of.files == MARKED_FILES ? "\"interrupted\"" : "\"complete\"";

    if (of.files == NO_FILES) {
        verdict.check(access(folder.c_str(), F_OK) != 0, "%s: %zu files are left in a folder",
                      of.name, names.size());
        return;
    }
    std::string result = read_file(folder + "/result.json");
    verdict.check(names == all, "%s: %zu files instead of %zu, or others", of.name, names.size(),
                  all.size());
    verdict.check(result.find(mark) != std::string::npos && result.back() == '}',
                  "%s: result.json does not end, or is not marked %s", of.name, mark);
}

/* One sentence of the command's, and no other line. */
void check_said(const fault_case &of, const std::string &said, device::tally &verdict)
{
    bool is_line = said.rfind("kvtide: ", 0) == 0 && said.find('\n') == said.size() - 1;

    if (of.words)
        verdict.check(is_line && said.find(of.words) != std::string::npos,
                      "%s: no sentence with \"%s\": %s", of.name, of.words, said.c_str());
    else
        verdict.check(said.empty(), "%s: nothing is to be said: %s", of.name, said.c_str());
}

size_t free_memory()
{
    size_t free_bytes = 0, total_bytes = 0;

    device::must(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    return free_bytes;
}

/* The driver takes its time to clear away what a process held, and some of its own use moves. */
void check_freed(const fault_case &of, size_t before_bytes, device::tally &verdict)
{
    struct kvt_wall start = kvt_wall_now();
    size_t now_bytes = free_memory();

    while (now_bytes + MOVES_BYTES < before_bytes &&
           kvt_wall_seconds_since(start) < FREED_WITHIN_S) {
        (void)usleep(20000);
        now_bytes = free_memory();
    }
    verdict.check(now_bytes + MOVES_BYTES >= before_bytes, "%s: %zu MiB of device memory are gone",
                  of.name, (before_bytes - now_bytes) >> 20);
}

void run_case(const fault_case &of, device::tally &verdict)
{
    char root[] = "/tmp/test_faults.XXXXXX";
    std::string folder = std::string(mkdtemp(root)) + "/out";
    size_t before_bytes = free_memory();

    ending end = start_case(of, folder);
    std::printf("%-20s status %d after %4.1f s: %s%s", of.name, end.status, end.seconds,
                end.said.c_str(), end.said.empty() ? "\n" : "");
    std::fflush(stdout);
    verdict.check(end.ended, "%s: has not ended within %d s: %s", of.name, CASE_LIMIT_S,
                  end.said.c_str());
    verdict.check(end.status == of.status, "%s: exit status %d, not %d", of.name, end.status,
                  of.status);
    check_said(of, end.said, verdict);
    check_files(of, folder, verdict);
    check_freed(of, before_bytes, verdict);
    for (const std::string &name : names_in(folder))
        (void)std::remove((folder + "/" + name).c_str());
    (void)rmdir(folder.c_str());
    (void)rmdir(root);
}

} // namespace

int main(int argc, char **argv)
{
    device::tally verdict;

    if (argc == 4 && std::strcmp(argv[1], "--as-kvtide") == 0)
        return be_kvtide(*find_case(argv[2]), argv[3]);
    device::require();
    for (const fault_case &each : cases) {
        bool wanted = argc == 1;
        for (int i = 1; i < argc; i++)
            wanted = wanted || std::strcmp(argv[i], each.name) == 0;
        if (wanted)
            run_case(each, verdict);
    }
    return verdict.close();
}

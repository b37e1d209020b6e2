/* contract_child.c -- a play in a process of its own, so that what a plug-in does to its process is
 * a sentence here: a crash, an end, a call that never returns.
 *
 * Both processes see one page: where the play is, and what it came to. The plug-in's signals have
 * their plain meaning there, whoever handles them here (a sanitizer does). What it prints is no
 * part of an answer and goes nowhere. The child leads a group of its own, so that processes that it
 * made end with it; a terminal's signals do not reach that group, so that it also ends with us. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "contract.h"
#include "kvt/plugins.h"

/* In memory that both processes see. */
struct report {
    struct contract_note note;
    struct kvt_error err;
    kvt_status status;
    volatile bool has_ended; /* by itself: status, and err with it, are what it came to */
};

/* How a child ended otherwise. */
struct fate {
    bool is_hung;
    int signal_number; /* 0: none */
    int exit_status;
};

static struct report *report_new(void)
{
    void *memory = mmap(NULL, sizeof(struct report), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

static void report_free(struct report *report)
{
    if (report != NULL)
        (void)munmap(report, sizeof *report);
}

static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};

static const char *signal_name(int number)
{
    switch (number) {
    case SIGSEGV:
        return "SIGSEGV";
    case SIGBUS:
        return "SIGBUS";
    case SIGFPE:
        return "SIGFPE";
    case SIGILL:
        return "SIGILL";
    case SIGABRT:
        return "SIGABRT";
    default:
        return "a signal";
    }
}

/* What a child does. */
typedef kvt_status body(const void *context, struct report *report);

static kvt_status play_it(const void *context, struct report *report)
{
    struct contract_play play = *(const struct contract_play *)context;

    play.note = &report->note;
    return contract_play(&play, &report->err);
}

/* The object's own constructors run here, and its entry is called. */
static kvt_status load_it(const void *context, struct report *report)
{
    struct kvt_plugins *plugins = NULL;
    kvt_status status = kvt_plugins_new(&plugins, &report->err);

    report->note.function = "loading it";
    if (status == KVT_OK)
        status = kvt_plugins_load(plugins, context, &report->err);
    report->note.function = "unloading it";
    kvt_plugins_free(plugins);
    return status;
}

static void print_nowhere(void)
{
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (nowhere < 0)
        return;
    (void)dup2(nowhere, STDOUT_FILENO);
    (void)dup2(nowhere, STDERR_FILENO);
    (void)close(nowhere);
}

static void run_child(body *does, const void *context, pid_t parent, struct report *report)
{
    const struct rlimit no_core = {0, 0};

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    print_nowhere();
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
        (void)signal(crashes[i], SIG_DFL);
    (void)setrlimit(RLIMIT_CORE, &no_core);
    report->status = does(context, report);
    report->has_ended = true;
    _exit(0);
}

/* It stays to be waited for, and its group with it. */
static bool has_ended(pid_t child)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

/* As long as calls are made. The pipe's other end is closed by the child's end, unless a process
 * that it made still has it. */
static bool wait_until_ended(pid_t child, int fd, const struct report *report, double call_limit_s)
{
    enum {
        SLICE_MS = 100
    };
    struct pollfd pipe_end = {.fd = fd, .events = POLLIN};
    bool is_closed = false;
    uint64_t calls = 0;
    double quiet_ms = 0;

    while (quiet_ms < call_limit_s * 1e3) {
        int slice_ms = is_closed ? 1 : SLICE_MS;
        if (poll(&pipe_end, is_closed ? 0 : 1, slice_ms) > 0)
            is_closed = true;
        if (has_ended(child))
            return true;
        quiet_ms = calls == report->note.calls ? quiet_ms + slice_ms : 0;
        calls = report->note.calls;
    }
    return false;
}

static void await(pid_t child, int fd, const struct report *report, double call_limit_s,
                  struct fate *fate)
{
    int wait_status = 0;

    fate->is_hung = !wait_until_ended(child, fd, report, call_limit_s);
    (void)kill(-child, SIGKILL);
    while (waitpid(child, &wait_status, 0) < 0 && errno == EINTR)
        ;
    fate->signal_number = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
    fate->exit_status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0;
}

static kvt_status start(body *does, const void *context, struct report *report, int ends[2],
                        pid_t *child, struct kvt_error *err)
{
    if (pipe(ends) != 0)
        return kvt_fail_system(err, errno, "pipe", "a pipe to a child cannot be made");
    pid_t parent = getpid();
    (void)fflush(NULL); /* so that nothing is written twice */
    *child = fork();
    int fork_error = errno;
    if (*child == 0) {
        (void)close(ends[0]);
        run_child(does, context, parent, report);
    }
    if (*child > 0)
        (void)setpgid(*child, *child); /* whichever of the two comes first */
    (void)close(ends[1]);
    if (*child > 0)
        return KVT_OK;
    (void)close(ends[0]);
    return kvt_fail_system(err, fork_error, "fork", "a process to try a plug-in in cannot be made");
}

/* *out: what it came to; fate->..: where it did not come to anything. */
static kvt_status run_apart(body *does, const void *context, double call_limit_s,
                            struct report *report, struct fate *fate, struct kvt_error *err)
{
    int ends[2];
    pid_t child = 0;

    memset(report, 0, sizeof *report);
    *fate = (struct fate){.is_hung = false};
    kvt_status status = start(does, context, report, ends, &child, err);
    if (status != KVT_OK)
        return status;
    await(child, ends[0], report, call_limit_s, fate);
    (void)close(ends[0]);
    return KVT_OK;
}

/* ---- Sentences -------------------------------------------------------------------------- */

/* What a table has not asked for, and reads all the same. */
static const struct gift {
    enum contract_gift gift;
    enum kvt_plugin_kind kind;
    const char *reads, *without;
} gifts[] = {
    {CONTRACT_GIFT_FUTURE, KVT_PLUGIN_REPLACEMENT, "reads the future (call.next_use)",
     "the parameter " KVT_CLAIRVOYANT},
    {CONTRACT_GIFT_HIT_ORDER, KVT_PLUGIN_REPLACEMENT, "reads call.hit_slots",
     "wants_hit_order in its table"},
    {CONTRACT_GIFT_PAGE_HITS, KVT_PLUGIN_RESIDENCY, "reads page_hits",
     "wants_page_hits in its table"},
    {CONTRACT_GIFT_PAGE_SCORES, KVT_PLUGIN_RESIDENCY, "reads page_scores",
     "wants_page_scores in its table"},
    {CONTRACT_GIFT_PAGE_FUTURE, KVT_PLUGIN_RESIDENCY, "reads page_future",
     "wants_page_future in its table"},
    {CONTRACT_GIFT_VIEW, KVT_PLUGIN_SCHEDULING, "reads view", "wants_view in its table"},
    {CONTRACT_GIFT_ENTRIES, KVT_PLUGIN_SCHEDULING, "reads view.entries",
     "wants_entries in its table"},
};

/* The one thing that it does not crash with, if there is one; NULL. */
static const struct gift *find_gift(const struct contract_play *play, uint64_t crashed_at,
                                    double call_limit_s, struct report *report)
{
    for (size_t i = 0; i < sizeof gifts / sizeof gifts[0]; i++) {
        struct contract_play again = *play;
        struct kvt_error err;
        struct fate fate;
        if (gifts[i].kind != play->kind)
            continue;
        again.gifts |= (unsigned)gifts[i].gift;
        if (run_apart(play_it, &again, call_limit_s, report, &fate, &err) == KVT_OK &&
            !fate.is_hung && fate.signal_number == 0 && report->note.calls >= crashed_at)
            return &gifts[i];
    }
    return NULL;
}

/* of: the plug-in's table, or its file. */
static kvt_status tell(const char *of, double call_limit_s, const struct report *report,
                       const struct fate *fate, struct kvt_error *err)
{
    const char *function = report->note.function != NULL ? report->note.function : "trying it";
    unsigned long long call = report->note.calls;
    int number = fate->signal_number;
    char what[80]; /* "route(), in call 12,", or words that are no function's name */

    if (report->has_ended) {
        if (report->status != KVT_OK && err != NULL)
            *err = report->err;
        return report->status;
    }
    (void)snprintf(what, sizeof what, call > 0 ? "%.40s(), in call %llu," : "%.40s", function,
                   call);
    if (fate->is_hung)
        return kvt_fail(err, KVT_ERR_POLICY, of,
                        "%s has not returned for %g s; contract: every call returns", what,
                        call_limit_s);
    if (number == SIGKILL || number == SIGINT || number == SIGTERM)
        return kvt_fail(err, KVT_ERR_INTERRUPTED, of,
                        "the process that tries it was ended from outside, by signal %d", number);
    if (number != 0)
        return kvt_fail(err, KVT_ERR_POLICY, of, "%s crashes (%s); contract: every call returns",
                        what, signal_name(number));
    return kvt_fail(
        err, KVT_ERR_POLICY, of,
        "%s ends the process with status %d; contract: a plug-in never ends the process", what,
        fate->exit_status);
}

/* Where a gift makes the crash go away, that is what it is about. */
static kvt_status explain(const struct contract_play *play, double call_limit_s,
                          struct report *report, struct kvt_error *err)
{
    struct report *again = report_new();
    kvt_status status = KVT_ERR_POLICY;
    const struct gift *gift =
        again != NULL ? find_gift(play, report->note.calls, call_limit_s, again) : NULL;

    if (gift != NULL)
        status = contract_broken(play, err, "what is NULL unless asked for is not read",
                                 "it %s without %s: %s() crashes, and does not where it is there",
                                 gift->reads, gift->without, report->note.function);
    report_free(again);
    return status;
}

kvt_status contract_play_apart(const struct contract_play *play, double call_limit_s,
                               uint64_t *calls, struct kvt_error *err)
{
    struct report *report = report_new();
    struct fate fate;

    *calls = 0;
    if (report == NULL)
        return kvt_fail_nomem(err, "what two processes see");
    kvt_status status = run_apart(play_it, play, call_limit_s, report, &fate, err);
    if (status == KVT_OK) {
        *calls = report->note.calls;
        status = tell(play->info->name, call_limit_s, report, &fate, err);
        if (!report->has_ended && fate.signal_number != 0 && status == KVT_ERR_POLICY)
            status = explain(play, call_limit_s, report, err);
    }
    report_free(report);
    return status;
}

kvt_status contract_load_apart(const char *path, double call_limit_s, struct kvt_error *err)
{
    struct report *report = report_new();
    struct fate fate;

    if (report == NULL)
        return kvt_fail_nomem(err, "what two processes see");
    kvt_status status = run_apart(load_it, path, call_limit_s, report, &fate, err);
    if (status == KVT_OK)
        status = tell(path, call_limit_s, report, &fate, err);
    report_free(report);
    return status;
}

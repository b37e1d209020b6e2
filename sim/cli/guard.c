/* guard.c -- the ends that a command does not come to by itself: a crash or an exit() while a
 * plug-in is loaded, and a signal that the command does not heed.
 *
 * Each is told in a sentence and has an exit status, and no temporary of a file that was being
 * written stays behind. What is done here is done in signal handlers: nothing but what POSIX allows
 * there. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

#if defined(__SANITIZE_ADDRESS__)
#define CRASHES_ARE_TOLD 1 /* with a stack, by the sanitizer */
#else
#define CRASHES_ARE_TOLD 0
#endif

enum {
    FDS_LOOKED_AT = 1024
};

static struct {
    pid_t pid; /* of the process that is guarded, whose children are not; 0: none */
    bool ended;
    char plugins[512]; /* "a.so, b.so" */
} guard;

static void say(const char *text)
{
    size_t left = strlen(text);

    while (left > 0) {
        ssize_t wrote = write(STDERR_FILENO, text, left);
        if (wrote <= 0)
            return;
        text += wrote;
        left -= (size_t)wrote;
    }
}

static bool is_temporary(const char *path)
{
    static const char begin[] = ".kvt-", end[] = ".tmp";
    const char *slash = strrchr(path, '/');
    size_t length = strlen(path);

    return slash && strncmp(slash + 1, begin, sizeof begin - 1) == 0 && length > sizeof end &&
           strcmp(path + length - (sizeof end - 1), end) == 0;
}

/* Files being written are open, and named by their descriptors. */
static void remove_temporaries(void)
{
    char link[] = "/proc/self/fd/0000", path[4096];

    for (int fd = 3; fd < FDS_LOOKED_AT; fd++) {
        char digits[5];
        int count = 0;
        for (int rest = fd; rest > 0; rest /= 10)
            digits[count++] = (char)('0' + rest % 10);
        for (int i = 0; i < count; i++)
            link[sizeof "/proc/self/fd/" - 1 + (size_t)i] = digits[count - 1 - i];
        link[sizeof "/proc/self/fd/" - 1 + (size_t)count] = '\0';
        ssize_t length = readlink(link, path, sizeof path - 1);
        if (length <= 0)
            continue;
        path[length] = '\0';
        if (is_temporary(path))
            (void)unlink(path);
    }
}

static const char *name_of(int signal_number)
{
    switch (signal_number) {
    case SIGSEGV:
        return "SIGSEGV";
    case SIGBUS:
        return "SIGBUS";
    case SIGFPE:
        return "SIGFPE";
    case SIGILL:
        return "SIGILL";
    case SIGINT:
        return "SIGINT";
    case SIGTERM:
        return "SIGTERM";
    case SIGHUP:
        return "SIGHUP";
    default:
        return "SIGABRT";
    }
}

static void on_crash(int signal_number)
{
    if (getpid() != guard.pid) {
        (void)raise(signal_number); /* its own end, with the handler gone */
        return;
    }
    say("kvtide: ");
    say(guard.plugins);
    say(": the command crashed (");
    say(name_of(signal_number));
    say(") with a plug-in loaded; nothing is written\n");
    remove_temporaries();
    _exit(CLI_MALFORMED);
}

static void on_exit_of_its_own(void)
{
    if (getpid() != guard.pid || guard.ended)
        return;
    say("kvtide: ");
    say(guard.plugins);
    say(": exit() was called in the middle of the command, as no plug-in may; nothing is "
        "written\n");
    remove_temporaries();
    _exit(CLI_MALFORMED);
}

void cli_guard_plugin(const char *path)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    size_t used = strlen(guard.plugins);

    (void)snprintf(guard.plugins + used, sizeof guard.plugins - used, "%s%s", used > 0 ? ", " : "",
                   path);
    if (guard.pid != 0)
        return;
    guard.pid = getpid();
    (void)atexit(on_exit_of_its_own);
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0] && !CRASHES_ARE_TOLD; i++)
        (void)sigaction(crashes[i], &action, NULL);
}

void cli_guard_end(void)
{
    guard.ended = true;
}

void cli_end_at_once(int signal_number, const char *why)
{
    say("kvtide: ");
    say(why != NULL ? why : name_of(signal_number));
    say(": ended at once, nothing more is written\n");
    remove_temporaries();
    _exit(CLI_NO);
}

/* terminal.c -- progress on stderr, signals, and where the shared data lies. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "kvt/badge.h"
#include "kvt/version.h"

static volatile sig_atomic_t interrupted;

static void on_signal(int signal_number)
{
    if (interrupted)
        cli_end_at_once(signal_number, "a second signal");
    interrupted = 1;
}

static void on_signal_of_the_heedless(int signal_number)
{
    cli_end_at_once(signal_number, NULL);
}

static void handle(void (*handler)(int))
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = handler}, before;

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        bool is_nohup = ends[i] == SIGHUP && sigaction(SIGHUP, NULL, &before) == 0 &&
                        before.sa_handler == SIG_IGN;
        if (!is_nohup)
            (void)sigaction(ends[i], &action, NULL);
    }
}

void cli_end_on_signals(void)
{
    const struct sigaction ignored = {.sa_handler = SIG_IGN};

    handle(on_signal_of_the_heedless);
    /* A file past the size limit is a failed write, reported as such. */
    (void)sigaction(SIGXFSZ, &ignored, NULL);
}

void cli_catch_signals(void)
{
    handle(on_signal);
}

bool cli_interrupted(void)
{
    return interrupted != 0;
}

static bool holds_models(const char *dir)
{
    char path[4200];
    struct stat info;
    int length = snprintf(path, sizeof path, "%s/models/llm", dir);
    return length > 0 && (size_t)length < sizeof path && stat(path, &info) == 0 &&
           S_ISDIR(info.st_mode);
}

const char *cli_data_dir(void)
{
    static char found[4096];
    const char *given = getenv("KVT_DATA");

    if (given && *given)
        return given;
    char exe[2048];
    ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (length > 0) {
        exe[length] = '\0';
        char *slash = strrchr(exe, '/');
        if (slash)
            *slash = '\0';
        /* Unpacked, installed or just built: share/ stands beside the program's folder. */
        snprintf(found, sizeof found, "%s/../share/kvt", exe);
        if (holds_models(found))
            return found;
    }
    return kvt_installed_data_dir();
}

/* One that can go back to the start of its line. */
static bool is_terminal(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDERR_FILENO) && kind && *kind && strcmp(kind, "dumb") != 0;
}

void cli_progress_begin(struct cli_progress *progress, struct kvt_wall *start, bool quiet)
{
    *start = kvt_wall_now();
    *progress = (struct cli_progress){
        .quiet = quiet, .terminal = is_terminal(), .start = start, .last_s = 0};
}

void cli_progress_show(struct cli_progress *progress, double fraction, const char *what)
{
    enum {
        WIDTH = 28
    };
    double seconds = kvt_wall_seconds_since(*progress->start);

    if (progress->quiet || seconds - progress->last_s < (progress->terminal ? 0.2 : 10.0))
        return;
    progress->last_s = seconds;
    bool known = fraction > 0 && fraction <= 1;
    if (!progress->terminal) {
        if (known)
            fprintf(stderr, "%s: %.0f %% after %.0f s\n", what, 100 * fraction, seconds);
        else
            fprintf(stderr, "%s: %.0f s\n", what, seconds);
        return;
    }
    char bar[WIDTH + 1];
    int full = known ? (int)(fraction * WIDTH) : 0;
    memset(bar, '#', (size_t)full);
    memset(bar + full, '.', (size_t)(WIDTH - full));
    bar[WIDTH] = '\0';
    if (known)
        fprintf(stderr, "\r%-20.20s [%s] %3.0f %%  ETA %.0f s   ", what, bar, 100 * fraction,
                seconds / fraction - seconds);
    else
        fprintf(stderr, "\r%-20.20s [%s] %.0f s   ", what, bar, seconds);
    progress->shown = true;
}

void cli_progress_end(struct cli_progress *progress)
{
    if (progress->shown)
        fprintf(stderr, "\r%79s\r", "");
    progress->shown = false;
}

int cli_put_wrapped(const char *text, int column, int indent)
{
    while (*text != '\0') {
        int word = (int)strcspn(text, " ");
        if (column > indent && column + 1 + word >= CLI_COLUMNS) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        }
        printf("%.*s", word, text);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    return column;
}

void cli_print_badge(const struct kvt_badge *badge)
{
    char text[KVT_BADGE_TEXT_BYTES];

    kvt_badge_print(badge, text);
    printf("badge      ");
    (void)cli_put_wrapped(text, 11, 11);
    putchar('\n');
}

bool cli_progress_prepare(void *progress, double fraction, const char *what)
{
    cli_progress_show(progress, fraction, what);
    return !cli_interrupted();
}

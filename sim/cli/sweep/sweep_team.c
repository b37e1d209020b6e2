/* sweep_team.c -- ranks by way of a shared object, and their messages as text. */
#include "sweep_team.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kvt/json.h"

enum {
    PATH_BYTES = 4200,
    HEAD_BYTES = 64
};

static const char *const verbs[] = {
    [SWEEP_NOTHING] = "", [SWEEP_WANT] = "want", [SWEEP_DONE] = "done", [SWEEP_FAIL] = "fail",
    [SWEEP_BYE] = "bye",  [SWEEP_RUN] = "run",   [SWEEP_STOP] = "stop"};

enum {
    VERBS = sizeof verbs / sizeof verbs[0]
};

/* ---- Joining and leaving ------------------------------------------------------------------- */

bool sweep_team_is_launched(void)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    bool found = false;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const char *size = getenv(sizes[i]);
        found = found || (size != NULL && strtol(size, NULL, 10) > 1);
    }
    return found;
}

/* Beside the program as it is built, or where an installation has it; false: neither. */
static bool find_object(char path[PATH_BYTES])
{
    static const char *const places[] = {"kvt_mpi.so", "../lib/kvt/kvt_mpi.so"};
    char exe[2048];
    ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);

    if (length <= 0)
        return false;
    exe[length] = '\0';
    char *slash = strrchr(exe, '/');
    if (slash != NULL)
        *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        (void)snprintf(path, PATH_BYTES, "%s/%s", exe, places[i]);
        if (access(path, R_OK) == 0)
            return true;
    }
    return false;
}

static kvt_status load(const struct sweep_transport **out, struct kvt_error *err)
{
    char path[PATH_BYTES];
    sweep_transport_entry *entry = NULL;

    if (!find_object(path))
        return kvt_fail(err, KVT_ERR_DEVICE, "sweep --mpi",
                        "this kvtide was built without MPI: no kvt_mpi.so is beside the program or "
                        "in ../lib/kvt; it is built where Debian's libopenmpi-dev is installed");
    /* Global, because MPI loads parts of its own which look for it. Stays loaded. */
    void *object = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (object == NULL)
        return kvt_fail(err, KVT_ERR_DEVICE, "sweep --mpi",
                        "MPI cannot be loaded (%.300s); Debian package: openmpi-bin", dlerror());
    void *symbol = dlsym(object, SWEEP_TRANSPORT_ENTRY);
    memcpy(&entry, &symbol, sizeof entry);
    *out = entry != NULL ? entry() : NULL;
    if (*out == NULL || (*out)->abi != SWEEP_TRANSPORT_ABI)
        return kvt_fail(err, KVT_ERR_DEVICE, path, "it belongs to another version of kvtide");
    return KVT_OK;
}

kvt_status sweep_team_begin(struct sweep_team *team, struct kvt_error *err)
{
    const struct sweep_transport *transport = NULL;
    kvt_status status = load(&transport, err);

    *team = (struct sweep_team){.rank_count = 1};
    if (status != KVT_OK)
        return status;
    if (!transport->begin(&team->rank, &team->rank_count))
        return kvt_fail(err, KVT_ERR_DEVICE, "sweep --mpi", "MPI does not start");
    team->transport = transport;
    return KVT_OK;
}

void sweep_team_end(struct sweep_team *team)
{
    const struct timespec moment = {.tv_nsec = 1000000};

    if (team->transport == NULL)
        return;
    while (team->rank == 0 && team->gone < team->rank_count - 1) {
        struct sweep_message message;
        kvt_status status = sweep_team_receive(team, &message, NULL);
        if (status == KVT_OK && message.verb == SWEEP_WANT)
            status = sweep_team_send(team, message.from,
                                     &(struct sweep_message){.verb = SWEEP_STOP}, NULL);
        free(message.text);
        if (status != KVT_OK)
            break;
        if (message.verb == SWEEP_NOTHING)
            (void)nanosleep(&moment, NULL);
    }
    team->transport->end();
    team->transport = NULL;
}

void sweep_team_abandon(const struct sweep_team *team, int exit_code)
{
    if (team->transport == NULL || team->gone >= team->rank_count - 1)
        return;
    (void)fflush(NULL);
    team->transport->abandon(exit_code);
}

/* ---- Messages ------------------------------------------------------------------------------ */

kvt_status sweep_team_send(const struct sweep_team *team, int to,
                           const struct sweep_message *message, struct kvt_error *err)
{
    const char *text = message->text != NULL ? message->text : "";
    size_t bytes = HEAD_BYTES + strlen(text);
    char *line = malloc(bytes);

    if (line == NULL)
        return kvt_fail_nomem(err, "a message");
    int length = snprintf(line, bytes, "%s %zu %016" PRIx64 " %s", verbs[message->verb],
                          message->run, message->hash, text);
    bool sent = length > 0 && team->transport->send(to, line, (size_t)length);
    free(line);
    return sent ? KVT_OK
                : kvt_fail(err, KVT_ERR_DEVICE, "sweep --mpi", "rank %d cannot be reached", to);
}

static bool read_message(const char *line, struct sweep_message *out)
{
    char *at = NULL;
    size_t length = strcspn(line, " ");

    for (size_t i = 1; i < VERBS; i++) {
        if (strlen(verbs[i]) == length && strncmp(line, verbs[i], length) == 0)
            out->verb = (enum sweep_verb)i;
    }
    if (out->verb == SWEEP_NOTHING)
        return false;
    out->run = strtoull(line + length, &at, 10);
    out->hash = strtoull(at, &at, 16);
    out->text = *at == ' ' ? strdup(at + 1) : NULL;
    return out->text != NULL;
}

kvt_status sweep_team_receive(struct sweep_team *team, struct sweep_message *out,
                              struct kvt_error *err)
{
    char *line = NULL;
    size_t bytes = 0;

    *out = (struct sweep_message){.verb = SWEEP_NOTHING};
    if (!team->transport->receive(&out->from, &line, &bytes))
        return kvt_fail(err, KVT_ERR_DEVICE, "sweep --mpi", "the other ranks cannot be heard");
    if (line == NULL)
        return KVT_OK;
    bool is_read = read_message(line, out);
    free(line);
    if (!is_read)
        return kvt_fail(err, KVT_ERR_DEVICE, "sweep --mpi",
                        "rank %d says what this kvtide does not understand", out->from);
    team->gone += out->verb == SWEEP_BYE || out->verb == SWEEP_FAIL;
    return KVT_OK;
}

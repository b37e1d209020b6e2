/* child.c -- another program, between files without names: whatever it reads and prints first, it
 * never waits for us. */
#include "child.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static kvt_status start(const char *const *argv, const char *package, FILE *const streams[3],
                        pid_t *pid, struct kvt_error *err)
{
    posix_spawn_file_actions_t actions;
    int failed = posix_spawn_file_actions_init(&actions);

    if (failed != 0)
        return kvt_fail_nomem(err, "another program");
    for (int i = 0; i < 3 && failed == 0; i++)
        failed = posix_spawn_file_actions_adddup2(&actions, fileno(streams[i]), i);
    if (failed == 0) {
        /* The strings are not changed by it; its type is older than const. */
        union {
            const char *const *in;
            char *const *out;
        } words = {argv};
        failed = posix_spawnp(pid, argv[0], &actions, NULL, words.out, environ);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    if (failed == ENOENT)
        return kvt_fail(err, KVT_ERR_NOT_FOUND, argv[0],
                        "there is no such program on PATH; install what Debian calls %s", package);
    return failed == 0 ? KVT_OK
                       : kvt_fail(err, KVT_ERR_UNSUPPORTED, argv[0], "it cannot be run: %s",
                                  strerror(failed));
}

static kvt_status read_all(FILE *stream, char **out, size_t *out_bytes, struct kvt_error *err)
{
    long length = -1;

    if (fseek(stream, 0, SEEK_END) == 0)
        length = ftell(stream);
    if (length < 0 || fseek(stream, 0, SEEK_SET) != 0)
        return kvt_fail_system(err, errno, "a temporary file", "it cannot be used");
    *out = malloc((size_t)length + 1);
    if (*out == NULL)
        return kvt_fail_nomem(err, "what another program printed");
    *out_bytes = fread(*out, 1, (size_t)length, stream);
    (*out)[*out_bytes] = '\0';
    return KVT_OK;
}

static kvt_status judge(const char *name, int status, FILE *said, struct kvt_error *err)
{
    char line[256] = "";

    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return KVT_OK;
    rewind(said);
    if (fgets(line, sizeof line, said) != NULL)
        line[strcspn(line, "\n")] = '\0';
    if (WIFSIGNALED(status))
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, name, "it was ended by signal %d",
                        WTERMSIG(status));
    return kvt_fail(err, KVT_ERR_UNSUPPORTED, name, "it ended with status %d: %s",
                    WEXITSTATUS(status), line);
}

kvt_status child_run(const char *const *argv, const char *package, FILE *input, char **out,
                     size_t *out_bytes, struct kvt_error *err)
{
    FILE *printed = tmpfile(), *said = tmpfile();
    FILE *const streams[3] = {input, printed, said};
    kvt_status status = KVT_OK;
    pid_t pid = -1;
    int ended = 0;

    *out = NULL;
    *out_bytes = 0;
    if (printed == NULL || said == NULL || fflush(input) != 0 ||
        lseek(fileno(input), 0, SEEK_SET) != 0)
        status = kvt_fail_system(err, errno, "a temporary file", "it cannot be used");
    if (status == KVT_OK)
        status = start(argv, package, streams, &pid, err);
    while (status == KVT_OK && waitpid(pid, &ended, 0) < 0) {
        if (errno != EINTR)
            status = kvt_fail_system(err, errno, argv[0], "its end cannot be awaited");
    }
    if (status == KVT_OK)
        status = judge(argv[0], ended, said, err);
    if (status == KVT_OK)
        status = read_all(printed, out, out_bytes, err);
    if (printed != NULL)
        fclose(printed);
    if (said != NULL)
        fclose(said);
    return status;
}

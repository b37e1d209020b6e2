/* along.h -- what goes along with a key that is set, so that the scenario stays one of its kind. */
#ifndef KVT_CLI_ALONG_H
#define KVT_CLI_ALONG_H

#include "kvt/arena.h"
#include "kvt/scenario.h"

/* What a scenario has before the key is set. */
struct cli_along {
    double gpus, expert_gpus; /* of the one pool; 0: there are several */
    double concurrency, requests, conversations;
};
void cli_along_read(const struct kvt_scenario *scenario, struct cli_along *out);

/* Settings as they are gathered. */
struct cli_settings {
    const char **items; /* [most] */
    size_t count, most;
    struct kvt_arena *arena; /* of the texts */
    /* Whether somebody sets the path, or what holds it, himself: it stays with him. */
    bool (*is_taken)(const void *context, const char *path);
    const void *context;
};

/* "PATH=VALUE". KVT_ERR_INVALID where there is no room. */
KVT_CHECKED kvt_status cli_settings_add(struct cli_settings *sets, const char *path,
                                        const char *value, struct kvt_error *err);

/* Behind "cluster.decode.gpus=VALUE": replicas follow from GPUs, and experts that were spread over
 * all of them are again. Nothing with any other path, or a value that is no number. */
KVT_CHECKED kvt_status cli_along_gpus(const struct cli_along *along, const char *path,
                                      const char *value, struct cli_settings *sets,
                                      struct kvt_error *err);

/* Behind "workload.concurrency=VALUE": as many requests for each one at a time as before, so that
 * runs are of like length. */
KVT_CHECKED kvt_status cli_along_concurrency(const struct cli_along *along, const char *path,
                                             const char *value, struct cli_settings *sets,
                                             struct kvt_error *err);

#endif

/* along.h -- what goes along with a key that is set, so that the scenario stays one of its kind. */
#ifndef KVT_CLI_ALONG_H
#define KVT_CLI_ALONG_H

#include "kvt/arena.h"
#include "kvt/scenario.h"

enum {
    CLI_ALONG_MAX = 2 /* keys that go along with one */
};
#define CLI_ALONG_GPUS "cluster.decode.gpus"

/* Whether path goes along with this key. */
bool cli_along_leads(const char *leader, const char *path);
/* Whether anything does. */
bool cli_along_is_leader(const char *path);

/* What a scenario has before the key is set. */
struct cli_along {
    double gpus, expert_gpus; /* of the one pool; 0: there are several */
    bool keeps_dp, keeps_ep;  /* --set says them: they stay what they are */
    double concurrency, requests, conversations;
};
/* Of its tree and origins alone: a scenario that is loaded for its keys will do, which need not be
 * one that can be run as long as the key has not its value. */
void cli_along_read(const struct kvt_scenario *scenario, struct cli_along *out);

/* Settings as they are gathered. */
struct cli_settings {
    const char **items; /* [most] */
    size_t count, most;
    struct kvt_arena *arena; /* of the texts */
    /* Whether somebody asks for values of the path, or of what holds it, himself: it is his. */
    bool (*is_taken)(const void *context, const char *path);
    const void *context;
};

/* "PATH=VALUE". KVT_ERR_INVALID where there is no room. */
KVT_CHECKED kvt_status cli_settings_add(struct cli_settings *sets, const char *path,
                                        const char *value, struct kvt_error *err);

/* Behind "cluster.decode.gpus=VALUE": replicas follow from GPUs, and experts that were spread over
 * all of them are again, but for what --set says. Nothing with any other path, or a value that is
 * no number. */
KVT_CHECKED kvt_status cli_along_gpus(const struct cli_along *along, const char *path,
                                      const char *value, struct cli_settings *sets,
                                      struct kvt_error *err);

/* Behind "workload.concurrency=VALUE": as many requests for each one at a time as before, whoever
 * said how many that were, so that runs are of like length. */
KVT_CHECKED kvt_status cli_along_concurrency(const struct cli_along *along, const char *path,
                                             const char *value, struct cli_settings *sets,
                                             struct kvt_error *err);

#endif

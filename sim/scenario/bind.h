/* bind.h -- what the parts of binding share: readers of a complete tree. */
#ifndef KVT_SCENARIO_BIND_H
#define KVT_SCENARIO_BIND_H

#include <string.h>

#include "load.h"

enum {
    KVT_DOTTED_BYTES = 128
};

static inline double kvt_real_at(const cJSON *object, const char *name)
{
    return kvt_tree_find(object, name)->valuedouble;
}

/* The number, or `otherwise` where a word stands in its place. */
static inline double kvt_real_or(const cJSON *object, const char *name, double otherwise)
{
    const cJSON *node = kvt_tree_find(object, name);
    return cJSON_IsNumber(node) ? node->valuedouble : otherwise;
}

static inline uint32_t kvt_count_at(const cJSON *object, const char *name)
{
    return (uint32_t)kvt_real_at(object, name);
}

static inline const char *kvt_text_at(const cJSON *object, const char *name)
{
    return kvt_tree_find(object, name)->valuestring;
}

/* Value of a parameter by name, NULL when the plug-in has none of that name. */
static inline const struct kvt_param_value *kvt_param_of(const struct kvt_choice *choice,
                                                         const char *name)
{
    for (size_t i = 0; choice->info != NULL && i < choice->info->param_count; i++) {
        if (strcmp(choice->info->params[i].name, name) == 0)
            return &choice->params.values[i];
    }
    return NULL;
}

/* ---- bind.c: one parameter --------------------------------------------------------- */

/* A checked value as the plug-in sees it; a shipped name is still one. */
KVT_CHECKED kvt_status kvt_bind_param(struct kvt_arena *arena, const struct kvt_param_spec *spec,
                                      const cJSON *node, struct kvt_param_value *out,
                                      struct kvt_error *err);

/* The plug-in that is chosen at a dotted path of the tree, with its values. */
KVT_CHECKED kvt_status kvt_bind_choice(struct kvt_load *load, const char *dotted,
                                       struct kvt_choice *out, struct kvt_error *err);
/* Refuses a length, chosen at a dotted path, that the model can never hold. */
KVT_CHECKED kvt_status kvt_check_length(struct kvt_load *load, const struct kvt_scenario *scenario,
                                        const char *dotted, const struct kvt_choice *choice,
                                        struct kvt_error *err);

/* ---- bind_prefill.c: how prompts become KV --------------------------------------- */

/* After model, hardware, pools and timing are bound. */
KVT_CHECKED kvt_status kvt_bind_prefill(struct kvt_load *load, struct kvt_scenario *out,
                                        struct kvt_error *err);

/* ---- bind_expenses.c: what is paid ------------------------------------------------------ */

/* After pools and prefill are bound. */
KVT_CHECKED kvt_status kvt_bind_expenses(struct kvt_load *load, struct kvt_scenario *out,
                                         struct kvt_error *err);

/* ---- bind_kinds.c: kinds of requests ------------------------------------------ */

/* After SLO classes, tasks and the run's fidelity are bound. */
KVT_CHECKED kvt_status kvt_bind_kinds(struct kvt_load *load, struct kvt_scenario *out,
                                      struct kvt_error *err);

/* ---- bind_files.c: the files that a scenario names ------------------------------ */

KVT_CHECKED kvt_status kvt_bind_model(struct kvt_load *load, struct kvt_scenario *out,
                                      struct kvt_error *err);
/* dotted: "hardware", or a pool's own. */
KVT_CHECKED kvt_status kvt_bind_hardware(struct kvt_load *load, const char *dotted,
                                         const struct kvt_hardware **out, struct kvt_error *err);
/* After the speculation is bound: its drafter. */
KVT_CHECKED kvt_status kvt_bind_drafter(struct kvt_load *load, struct kvt_scenario *out,
                                        struct kvt_error *err);

/* ---- bind_backend.c: what steps are done by --------------------------------------- */

/* After the run's fidelity is bound. */
KVT_CHECKED kvt_status kvt_bind_backend(struct kvt_load *load, struct kvt_scenario *out,
                                        struct kvt_error *err);

/* ---- bind_staging.c: rows that find no hot slot ---------------------------------- */

/* After rounds and hot tokens are bound. */
KVT_CHECKED kvt_status kvt_bind_staging(struct kvt_load *load, struct kvt_scenario *out,
                                        struct kvt_error *err);

/* ---- bind_crossing.c: how missing rows cross the link ---------------------------- */

/* After the run's fidelity and the backend are bound. */
KVT_CHECKED kvt_status kvt_bind_crossing(struct kvt_load *load, struct kvt_scenario *out,
                                         struct kvt_error *err);

/* ---- pools.c: decode pools and their memory ------------------------------------- */

/* After model, hardware and drafter are bound. */
KVT_CHECKED kvt_status kvt_bind_pools(struct kvt_load *load, struct kvt_scenario *out,
                                      struct kvt_error *err);

/* ---- bind_faults.c: what fails ---------------------------------------------------- */

/* Last: it asks about pools, prefill, fidelity and backend. */
KVT_CHECKED kvt_status kvt_bind_faults(struct kvt_load *load, struct kvt_scenario *out,
                                       struct kvt_error *err);

#endif

/* kvt/plugin.h -- what every policy, law and timing table begins with. */
#ifndef KVT_PLUGIN_H
#define KVT_PLUGIN_H

#include "kvt/error.h"
#include "kvt/rng.h"

KVT_BEGIN_DECLS

/* Raised whenever a table changes incompatibly. New members are only ever
 * appended, and a reader looks at struct_bytes before it touches one. */
#define KVT_ABI_VERSION 1u

/* Where a number comes from, worst last. */
enum kvt_basis {
    KVT_BASIS_EXACT = 0, /* counted by the simulator, no timing in it */
    KVT_BASIS_MEASURED,
    KVT_BASIS_PROFILE,
    KVT_BASIS_DATASHEET,
    KVT_BASIS_FITTED,       /* fitted to the paper */
    KVT_BASIS_EXTRAPOLATED, /* outside the range of what was measured or fitted */
    KVT_BASIS_ASSUMED
};
const char *kvt_basis_name(enum kvt_basis basis); /* "exact", "measured", "fitted-to-paper", ... */

enum kvt_param_type {
    KVT_PARAM_COUNT,  /* a whole number in [minimum, maximum] */
    KVT_PARAM_REAL,   /* a finite number in [minimum, maximum] */
    KVT_PARAM_BOOL,   /* true or false; number is 1 or 0 */
    KVT_PARAM_CHOICE, /* one of choices; number is its index, text its name */
    KVT_PARAM_TEXT,   /* free text; minimum and maximum bound its length. Named "path" or
                       * "..._path" it is a file: taken relative to the file that gives it,
                       * and hashed into the result's inputs; named "drafter", "acceptance" or
                       * "costs" it is what is shipped under that name in models/drafters,
                       * models/acceptance or models/costs, or such a path, and "none" where the
                       * table says that it may be: the plug-in sees the path. */
    KVT_PARAM_LIST,   /* numbers, each in [minimum, maximum]; one may stand alone */
    KVT_PARAM_RECORDS /* objects whose members, all required, are the numbers named in choices
                       * ("concurrency|seconds"); list holds them row by row */
};

/* What takes the effect of a parameter away. */
struct kvt_idle {
    /* A parameter of the same plug-in, or a key as "residency.policy", which has a dot; NULL:
     * nothing does. */
    const char *beside;
    const char *values; /* while its text is one of "a|b"; NULL: while its number, 1 for true and
                         * its length for a list, */
    double from, to;    /* lies in [from, to] */
    const char *cure;   /* what gives the effect back: "block 0" */
};

enum {
    KVT_IDLE_MAX = 4
};

/* One tunable, declared once: parsed, checked, listed by `kvtide list -v`,
 * printed by `check --print` and echoed in results from this table alone. A
 * default outside the bounds (or a NULL text) means that there is none and the
 * parameter must be given. */
struct kvt_param_spec {
    const char *name; /* with its unit: "window_tokens" */
    const char *help; /* one sentence */
    enum kvt_param_type type;
    double minimum, maximum;
    double default_number;     /* COUNT, REAL, BOOL */
    const char *default_text;  /* CHOICE and TEXT by name; LIST as JSON, "[1, 2]" */
    const char *choices;       /* "a|b|c" for CHOICE, member names for RECORDS, else NULL */
    const char *calibrated_to; /* what the default was fitted to; NULL: nothing. Reports say so */
    struct kvt_idle idle[KVT_IDLE_MAX]; /* any one of them: given beside it, it is refused */
};

struct kvt_param_value {
    double number;
    const char *text;
    const double *list; /* [list_length] */
    size_t list_length;
};

/* Checked values, in the order of info.params. */
struct kvt_params {
    const struct kvt_param_value *values; /* [count] */
    size_t count;
};

struct kvt_plugin_info {
    uint32_t abi;                        /* KVT_ABI_VERSION */
    uint32_t struct_bytes;               /* sizeof the table this info begins */
    const char *name;                    /* as written in a scenario: "lru" */
    const char *summary;                 /* one line for `kvtide list` */
    const struct kvt_param_spec *params; /* [param_count] */
    size_t param_count;
};

enum kvt_plugin_kind {
    KVT_PLUGIN_RESIDENCY = 0,
    KVT_PLUGIN_REPLACEMENT,
    KVT_PLUGIN_SCHEDULING,
    KVT_PLUGIN_ROUTER,
    KVT_PLUGIN_LAW, /* which rows the indexer selects */
    KVT_PLUGIN_SPECULATION,
    KVT_PLUGIN_TIMING,
    KVT_PLUGIN_IMPORT,  /* how long a history takes to come in */
    KVT_PLUGIN_ARRIVAL, /* when requests come */
    KVT_PLUGIN_LENGTH,  /* how long they are */
    KVT_PLUGIN_BACKEND, /* what a decode step is done by */
    KVT_PLUGIN_KINDS
};

/* The lists of policies/, models/ and workloads/ (their table.c), and of backends: those of one
 * kind, in listing order; NULL and 0 for a kind that is not in the folder. */
const struct kvt_plugin_info *const *kvt_policies_table(enum kvt_plugin_kind kind, size_t *count);
const struct kvt_plugin_info *const *kvt_models_table(enum kvt_plugin_kind kind, size_t *count);
const struct kvt_plugin_info *const *kvt_workloads_table(enum kvt_plugin_kind kind, size_t *count);
const struct kvt_plugin_info *const *kvt_backends_table(enum kvt_plugin_kind kind, size_t *count);

/* "residency", "replacement", ...; never NULL. */
const char *kvt_plugin_kind_name(enum kvt_plugin_kind kind);

/* What can be chosen: the built-in tables and those of shared objects (kvt/plugins.h). NULL stands
 * for the built-in ones alone. */
struct kvt_plugins;

/* The tables of one kind, in listing order: built-in ones first. */
const struct kvt_plugin_info *const *kvt_plugin_list(const struct kvt_plugins *plugins,
                                                     enum kvt_plugin_kind kind, size_t *count);

/* KVT_ERR_NOT_FOUND names the choices; there is no default behind the caller's
 * back. `where` is the place for the message. */
KVT_CHECKED kvt_status kvt_plugin_find(const struct kvt_plugins *plugins, enum kvt_plugin_kind kind,
                                       const char *name, const char *where,
                                       const struct kvt_plugin_info **out, struct kvt_error *err);

/* What a parameter takes to have an effect, "block 0; .."; "" where it always has one. idle is
 * [KVT_IDLE_MAX], or NULL. Into out, which is returned. */
const char *kvt_idle_cures(const struct kvt_idle *idle, char *out, size_t out_bytes);

/* What the program lends to a plug-in, so that a shared object links against
 * nothing of ours. New members are appended. */
struct kvt_host {
    uint32_t abi, struct_bytes;
    kvt_status (*fail)(struct kvt_error *err, kvt_status status, const char *where, const char *fmt,
                       ...);
    struct kvt_rng (*rng_stream)(uint64_t run_seed, enum kvt_rng_purpose purpose, uint64_t entity);
    uint64_t (*rng_u64)(struct kvt_rng *rng);
    uint64_t (*rng_below)(struct kvt_rng *rng, uint64_t bound);
    double (*rng_unit)(struct kvt_rng *rng);
    double (*rng_gaussian)(struct kvt_rng *rng);
    double (*rng_exponential)(struct kvt_rng *rng, double mean);
};
const struct kvt_host *kvt_host(void);

/* ---- A shared object ------------------------------------------------------------------------ */

/* One table that it brings. info begins the table of its kind: kvt_residency_policy,
 * kvt_replacement_policy, kvt_scheduling_policy, kvt_router_policy, kvt_law or
 * kvt_speculation_method. */
struct kvt_plugin_table {
    enum kvt_plugin_kind kind;
    const struct kvt_plugin_info *info;
};

/* All of them, constant and of the object's life. */
struct kvt_plugin_object {
    uint32_t abi, struct_bytes;            /* KVT_ABI_VERSION, sizeof this struct */
    const struct kvt_plugin_table *tables; /* [table_count] */
    size_t table_count;
};

/* What a shared object has to export, and all that is looked at in it. Called once, when it is
 * loaded. */
#if defined(__GNUC__)
#define KVT_EXPORT __attribute__((visibility("default")))
#else
#define KVT_EXPORT
#endif
KVT_EXPORT const struct kvt_plugin_object *kvt_plugin_entry(void);

/* Defines it, of an array of tables. */
#define KVT_PLUGIN_OBJECT(array)                                                                   \
    const struct kvt_plugin_object *kvt_plugin_entry(void)                                         \
    {                                                                                              \
        static const struct kvt_plugin_object object = {KVT_ABI_VERSION, sizeof object, (array),   \
                                                        sizeof(array) / sizeof *(array)};          \
        return &object;                                                                            \
    }

/* The same of a single table, by its name. */
#define KVT_PLUGIN(kind, table)                                                                    \
    static const struct kvt_plugin_table kvt_plugin_tables[] = {{(kind), &(table).info}};          \
    KVT_PLUGIN_OBJECT(kvt_plugin_tables)

/* ---- For whoever holds plug-ins ----------------------------------------------------------------
 */

/* Zeroed memory for a plug-in's state, also where it has none; NULL when memory is
 * short. free() it. */
KVT_CHECKED void *kvt_plugin_state_new(size_t bytes);

/* Calls a member of a table that returns a status and takes *err last. A failure is always a known
 * one in words: what the plug-in says of it, or else that it does not (KVT_ERR_POLICY). */
#define KVT_PLUGIN_CALL(table, member, err, ...)                                                   \
    (kvt_plugin_hear(err),                                                                         \
     kvt_plugin_outcome(&(table)->info, #member, (table)->member(__VA_ARGS__, (err)), (err)))

/* Its two halves: *err says nothing; what came of the call. err may be NULL. */
void kvt_plugin_hear(struct kvt_error *err);
KVT_CHECKED kvt_status kvt_plugin_outcome(const struct kvt_plugin_info *info, const char *member,
                                          kvt_status status, struct kvt_error *err);

/* A plug-in by name, with checked parameters. */
struct kvt_choice {
    const struct kvt_plugin_info *info;
    struct kvt_params params;
};

/* Whether it has a parameter of that name, of type BOOL, which is true. */
bool kvt_choice_has(const struct kvt_choice *choice, const char *flag);
#define KVT_CLAIRVOYANT "clairvoyant" /* the parameter that lets a policy see the future */

KVT_END_DECLS
#endif

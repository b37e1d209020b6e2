/* engine.h -- from an engine's flags or start-up log to a scenario, and from a scenario to flags.
 *
 *     flags, log  ->  facts  ->  scenario  ->  what fits; rules over facts  ->  what is refused
 *     scenario    ->  facts  ->  rules over facts  ->  obstacles; no obstacle  ->  flags */
#ifndef KVT_CLI_ENGINE_H
#define KVT_CLI_ENGINE_H

#include <cjson/cJSON.h>

#include "kvt/engine.h"
#include "kvt/scenario.h"
#include "kvt/size.h"

struct cli_texts;

/* ---- Flags to facts: flags.c ------------------------------------------------------------- */

/* Texts that were found one after the other; they live in the arena. */
struct engine_notes {
    const char **items;
    size_t count, room;
};
bool engine_note(struct engine_notes *notes, struct kvt_arena *arena, const char *text);

struct engine_flags {
    struct kvt_engine_facts facts;
    struct engine_notes ignored; /* flags, and members of JSON ones, that nothing here knows */
};

/* words[count]: what comes behind the engine's command, or with it ("vllm serve MODEL .."). Refuses
 * (KVT_ERR_INVALID) values that are not what a flag takes. */
KVT_CHECKED kvt_status engine_read_words(const struct kvt_engine *engine, const char *const *words,
                                         size_t count, struct kvt_arena *arena,
                                         struct engine_flags *out, struct kvt_error *err);

/* The same from the arguments that a log prints: an object of names with '_'. A member that is null
 * was not given. */
KVT_CHECKED kvt_status engine_read_arguments(const struct kvt_engine *engine,
                                             const cJSON *arguments, struct kvt_arena *arena,
                                             struct engine_flags *out, struct kvt_error *err);

/* ---- Facts to a scenario: start.c -------------------------------------------------------- */

/* Context lengths that were asked for by an option; none: count 0. */
enum {
    ENGINE_LENGTHS_MAX = 256
};
struct engine_lengths {
    const char *option; /* "check --tokens" */
    uint64_t of[ENGINE_LENGTHS_MAX];
    size_t count;
};

/* What the longest context is by. */
enum engine_length_by {
    ENGINE_LENGTH_OF_MODEL, /* no flag says one: the model's own */
    ENGINE_LENGTH_GIVEN,    /* a flag's, or a log's */
    ENGINE_LENGTH_FITTED    /* the engine is to take what fits */
};

struct engine_start {
    const struct kvt_engine *engine;
    struct kvt_engine_facts facts; /* those of the flags, and what followed from them */
    struct engine_notes assumed;   /* what the flags leave open */
    enum engine_length_by length_by;
    struct engine_notes faults; /* why it would not start, beside the rules */
    cJSON *tree;                /* the scenario, to be run; engine_start_free() */
    bool is_bound;              /* scenario and sizes hold; else a fault says why not */
    bool is_unknown;            /* not bound because nothing here can size such a start */
    struct kvt_scenario scenario;
    uint64_t lengths[ENGINE_LENGTHS_MAX];
    struct kvt_size sizes[ENGINE_LENGTHS_MAX]; /* [length_count] */
    size_t length_count;
};

/* hardware: our name of the GPU, NULL: h200. sets: changes to the scenario, as --set has them.
 * lengths to size it at; 0 of them: the longest that is taken, and where no flag says it a few
 * usual ones before. Refuses a model
 * that has no file here, and lengths that it does not have. What an engine would refuse is no error
 * of this. */
KVT_CHECKED kvt_status engine_start(const struct kvt_engine *engine,
                                    const struct kvt_engine_facts *facts, const char *hardware,
                                    const struct cli_texts *sets,
                                    const struct engine_lengths *lengths, struct kvt_arena *arena,
                                    struct engine_start *out, struct kvt_error *err);
void engine_start_free(struct engine_start *start);

/* Requests of the longest context that the engine will say run at once; 0: it says nothing of that.
 */
double engine_says_concurrency(const struct engine_start *start);

/* ---- Scenario to flags: export.c --------------------------------------------------------- */

struct engine_obstacle {
    const struct kvt_engine_rule *rule;
    const char *says, *instead; /* facts filled in; instead may be NULL */
};

struct engine_export {
    const struct kvt_engine *engine;
    const struct kvt_scenario *scenario; /* borrowed */
    struct kvt_engine_facts facts;
    struct engine_notes lines;         /* flags, one with its value a line; those that it would take
                                        * without its obstacles */
    struct engine_obstacle *obstacles; /* [obstacle_count] */
    size_t obstacle_count;
    struct engine_notes warnings;
};

/* What the scenario in force is to an engine. most: requests that it is to run at once, in all,
 * where fewer than fit; 0: what fits. Everything lives in the arena. */
KVT_CHECKED kvt_status engine_export(const struct kvt_engine *engine,
                                     const struct kvt_scenario *scenario, uint64_t most,
                                     struct kvt_arena *arena, struct engine_export *out,
                                     struct kvt_error *err);

/* Prints the flags and returns true; or, where there are obstacles, prints them, which of the
 * shipped engines comes nearest and what would have to be given up, and returns false. */
KVT_CHECKED kvt_status engine_print_export(const struct engine_export *export, bool json,
                                           struct kvt_arena *arena, bool *runs,
                                           struct kvt_error *err);

/* The same as a tree, for a report of something larger; cJSON_Delete() it. */
KVT_CHECKED kvt_status engine_export_tree(const struct engine_export *export,
                                          struct kvt_arena *arena, cJSON **out,
                                          struct kvt_error *err);

/* The facts of a scenario, and those of a model alone. */
void engine_model_facts(const struct kvt_engine *engine, const struct kvt_llm *llm,
                        struct kvt_engine_facts *facts);
void engine_scenario_facts(const struct kvt_engine *engine, const struct kvt_scenario *scenario,
                           struct kvt_engine_facts *facts);

/* ---- Reports: report.c ------------------------------------------------------------------- */

/* Rules of one effect that hold, as an array of {id, says, instead, source}. */
KVT_CHECKED kvt_status engine_rules_tree(const struct kvt_engine *engine,
                                         const struct kvt_engine_facts *facts,
                                         enum kvt_engine_effect effect, struct kvt_arena *arena,
                                         cJSON **out, struct kvt_error *err);
/* The whole answer of `check --engine`; cJSON_Delete() it. */
KVT_CHECKED kvt_status engine_start_tree(const struct engine_start *start,
                                         const struct engine_notes *ignored,
                                         struct kvt_arena *arena, cJSON **out,
                                         struct kvt_error *err);
void engine_print_start(const cJSON *tree);
/* It starts, and something runs. */
bool engine_starts(const cJSON *tree);

/* ---- Commands: check_engine.c, size_log.c ------------------------------------------------ */

struct engine_question {
    const char *engine, *hardware, *tokens;
    const struct cli_texts *sets, *words;
    bool print, json;
};
/* `check --engine E -- FLAGS`; its exit status. */
int engine_check(const struct engine_question *question);
/* `check SCENARIO --engine E --export flags`. */
int engine_check_export(const struct engine_question *question);
/* `size --from-log FILE`; engine NULL: told by the lines. */
int engine_size_log(const char *path, const struct engine_question *question);

/* "32768,100032", or NULL, to out->of; out->option is for messages. */
KVT_CHECKED kvt_status engine_parse_lengths(const char *text, struct engine_lengths *out,
                                            struct kvt_error *err);

/* literal.c: a Python literal, dict(..), Name(..) or k=v, .., as a log prints arguments, to JSON.
 * *out NULL where it is none. */
cJSON *engine_parse_literal(const char *text);
cJSON *engine_parse_arguments(const char *text);

#endif

/* start.c -- what an engine would do with its flags: facts to a scenario, and its sizes.
 *
 *     the model by its checkpoint, rows by the KV format, GPUs by the parallelism
 *     weights, then the pool, as the engine budgets it
 *     the host pool, as the engine states it
 *     the scenario that this is; what fits in it, in the engine's layout */
#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli.h"
#include "../list.h"
#include "kvt/json.h"
#include "start.h"

#define GIB ((double)KVT_GIB)

static double fact(const struct engine_start *start, const char *name, double otherwise)
{
    return kvt_engine_number(&start->facts, name, otherwise);
}

static void set(struct engine_start *start, const char *name, double value)
{
    kvt_engine_set_number(&start->facts, name, value);
}

static void set_default(struct engine_start *start, const char *name, double value)
{
    if (!kvt_engine_knows(&start->facts, name))
        set(start, name, value);
}

static kvt_status note(struct engine_notes *notes, struct kvt_arena *arena, const char *text,
                       struct kvt_error *err)
{
    return engine_note(notes, arena, text) ? KVT_OK : kvt_fail_nomem(err, "a note");
}

/* ---- The model --------------------------------------------------------------------------- */

/* Is part a part of name, with no letter or digit of a longer word behind it? */
static bool holds_name(const char *name, const char *part)
{
    size_t length = strlen(part);

    for (const char *at = strstr(name, part); at != NULL; at = strstr(at + 1, part)) {
        char behind = at[length];
        bool is_version = behind == '.' && isdigit((unsigned char)at[length + 1]);
        if (!isalnum((unsigned char)behind) && !is_version)
            return true;
    }
    return false;
}

/* "zai-org/GLM-5.3-FP8": the longest of the engine's checkpoints and our models that is a part of
 * its name. */
static kvt_status find_model(struct engine_start *start, struct kvt_arena *arena, const char **out,
                             struct kvt_error *err)
{
    const char *given = kvt_engine_text(&start->facts, "model");
    const struct kvt_engine *engine = start->engine;
    struct list_names names;
    char small[256];
    const char *best = NULL;
    size_t best_length = 0, length = 0;

    if (given == NULL)
        return kvt_fail(err, KVT_ERR_INVALID, "--model", "no model is given");
    if (kvt_is_path(given) && strlen(given) > 5 &&
        strcmp(given + strlen(given) - 5, ".json") == 0) {
        *out = given;
        return KVT_OK;
    }
    const char *slash = strrchr(given, '/');
    for (const char *at = slash != NULL ? slash + 1 : given; *at != '\0' && length < 255; at++)
        small[length++] = (char)tolower((unsigned char)*at);
    small[length] = '\0';
    for (uint32_t i = 0; i < engine->checkpoint_count; i++) {
        const struct kvt_engine_checkpoint *known = &engine->checkpoints[i];
        if (holds_name(small, known->theirs) && strlen(known->theirs) > best_length) {
            best_length = strlen(known->theirs);
            best = known->model;
        }
    }
    kvt_status status = list_names_read("models/llm", &names, err);
    if (status != KVT_OK)
        return status;
    for (size_t i = 0; i < names.count; i++) {
        if (holds_name(small, names.items[i]) && strlen(names.items[i]) > best_length) {
            best_length = strlen(names.items[i]);
            best = kvt_arena_strdup(arena, names.items[i]);
        }
    }
    if (best == NULL)
        status = list_names_check(&names, given, "model that is known here by its checkpoint",
                                  "; a path ends in \".json\"", "--model", err);
    list_names_free(&names);
    *out = best;
    return status;
}

/* ---- Parallelism -------------------------------------------------------------------------- */

static kvt_status find_parallelism(struct engine_start *start, struct kvt_error *err)
{
    double world = fact(start, "world_tp", 1), dp = fact(start, "dp", 1);
    bool splits = kvt_engine_is(&start->facts, "dp_attention");
    double tp = world, ep = fact(start, "ep", 1);

    if (world < 1 || dp < 1 || world > 1024 || dp > 4096)
        return kvt_fail(err, KVT_ERR_INVALID, "parallelism",
                        "tp %g and dp %g: 1 to 1024 and 1 to 4096 are expected", world, dp);
    if (fmod(world, ep) != 0)
        return kvt_fail(err, KVT_ERR_INVALID, "parallelism",
                        "expert parallelism of %g does not divide the %g GPUs of the "
                        "tensor-parallel group",
                        ep, world);
    if (kvt_engine_is(&start->facts, "attention_dp")) {
        dp = world;
        tp = 1;
    } else if (splits) {
        if (fmod(world, dp) != 0)
            return kvt_fail(err, KVT_ERR_INVALID, "parallelism",
                            "attention data parallelism of %g does not divide the %g GPUs of the "
                            "tensor-parallel group",
                            dp, world);
        tp = world / dp;
    }
    double gpus = tp * dp;
    bool spread = kvt_engine_is(&start->facts, "expert_parallel") || ep > 1 ||
                  ((splits || kvt_engine_is(&start->facts, "attention_dp")) && gpus > 1);
    set(start, "tp", tp);
    set(start, "dp", dp);
    set(start, "gpus", gpus);
    set(start, "ep", spread ? gpus : 1);
    set(start, "expert_parallel", spread);
    set_default(start, "pp", 1);
    return KVT_OK;
}

/* ---- The scenario ----------------------------------------------------------------------- */

static kvt_status bind(const cJSON *tree, const struct cli_texts *sets, struct kvt_arena *arena,
                       struct kvt_scenario *out, struct kvt_error *err)
{
    const struct kvt_scenario_options options = {
        .data_dir = cli_data_dir(),
        .plugins = cli_plugins(),
        .sets = sets->items,
        .set_count = sets->count,
        .for_size = true,
    };
    char *text = kvt_json_print(tree);

    if (text == NULL)
        return kvt_fail_nomem(err, "a scenario");
    kvt_status status = kvt_scenario_parse(text, strlen(text), "flags", &options, arena, out, err);
    free(text);
    return status;
}

/* ---- The hierarchy -------------------------------------------------------------------------- */

/* Those of the hierarchy: hot cache by rule where none is given, and its bounds. */
static void set_hot_facts(struct engine_start *start)
{
    const struct kvt_engine *engine = start->engine;
    double k = fact(start, "top_k", 0), queries = fact(start, "queries", 1);

    set(start, "speculates", queries > 1);
    set(start, "hot_least", engine->hot_least_per_query * queries * k);
    if (!kvt_engine_is(&start->facts, "hierarchy"))
        return;
    if (kvt_engine_knows(&start->facts, "hot_factor"))
        set_default(start, "hot_tokens", floor(fact(start, "hot_factor", 2) * k));
    set_default(start, "hot_tokens", (engine->hot_per_query * queries + engine->hot_extra) * k);
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* Row pools of which tokens are counted, as SGLang does: a pool of D tokens in HBM, host rows and
 * index rows for ratio x D. */
static void budget_tokens(struct engine_start *start, const struct kvt_scenario *scenario,
                          double left_gib, struct engine_budget *budget)
{
    const struct kvt_engine *engine = start->engine;
    const struct kvt_decode_pool *pool = &scenario->pools[0];
    double payload = kvt_llm_payload_bytes_per_token(scenario->llm);
    double index = kvt_llm_index_bytes_per_token(scenario->llm);
    double page = scenario->llm->index_heads > 0 ? engine->layout.page_tokens
                                                 : engine->layout.dense_page_tokens;
    double tokens = floor(left_gib * GIB / (payload + index) / page) * page;
    double given = fact(start, "pool_tokens", 0);
    double sold_gib = pool->hardware->hbm_gb * 1e9 / GIB;
    double ratio = fact(start, "host_ratio", engine->host_ratio);

    if (given > 0 && (given < tokens || tokens <= 0))
        tokens = floor(given / page) * page;
    set(start, "pool_tokens", tokens);
    if (!kvt_engine_is(&start->facts, "hierarchy")) {
        budget->unified_gib = tokens * (payload + index) / GIB;
        return;
    }
    set(start, "host_ratio", ratio);
    set(start, "host_tokens", floor(tokens * ratio / page) * page);
    set(start, "index_unbudgeted_gib", tokens * (ratio - 1) * index / GIB);
    set(start, "hbm_free_gib",
        sold_gib - pool->weights_gib_per_gpu - tokens * (payload + index) / GIB);
    budget->fraction = 1; /* what is not budgeted is there, or the rules say that it is not */
    budget->rows_gib = tokens * payload / GIB;
    budget->index_gib = tokens * ratio * index / GIB;
    budget->per_rank = true;
    double ranks =
        fact(start, "gpus", 1) < pool->gpus_per_node ? fact(start, "gpus", 1) : pool->gpus_per_node;
    budget->host_gib_per_node = ranks * fact(start, "host_tokens", 0) * payload / GIB;
    set(start, "host_pinned_gib", budget->host_gib_per_node);
}

/* Replicas of a node, each with its ranks' copies or one that they share. */
static void budget_host(struct engine_start *start, const struct kvt_scenario *scenario,
                        struct engine_budget *budget)
{
    const struct kvt_decode_pool *pool = &scenario->pools[0];
    double payload = kvt_llm_payload_bytes_per_token(scenario->llm);
    double page = start->engine->layout.page_tokens;
    double node = pool->gpus_per_node, tp = fact(start, "tp", 1);
    double ranks = tp < node ? tp : node;
    double replicas = fmin(fact(start, "dp", 1), floor(node / ranks));
    bool is_hierarchy = kvt_engine_is(&start->facts, "hierarchy");
    double gib = is_hierarchy ? fact(start, "host_gib", 0) : fact(start, "offload_gib", 0);

    /* Ranks of TensorRT-LLM hold their own; those of vLLM share a replica's on one node. */
    bool by_rank = start->engine->layout.kind == KVT_ENGINE_ROWS;
    budget->per_rank = is_hierarchy && tp > 1 && (by_rank || tp > node);
    budget->host_gib_per_node = gib * replicas * (budget->per_rank ? ranks : 1);
    if (!is_hierarchy || gib <= 0)
        return;
    set(start, "host_pinned_gib", budget->host_gib_per_node);
    set(start, "host_tokens", floor(gib * GIB / (payload * page)) * page);
    set(start, "host_least_tokens",
        (ceil(fact(start, "max_tokens", 0) / page) + 2) * page); /* a null block, and a copy's */
}

/* The pool where a flag states it; 0: derived. */
static double given_pool_gib(const struct engine_start *start, const struct kvt_llm *llm)
{
    const struct kvt_engine_layout *layout = &start->engine->layout;
    double page = llm->index_heads > 0 ? layout->page_tokens : layout->dense_page_tokens;
    double resident =
        page * (kvt_llm_payload_bytes_per_token(llm) + kvt_llm_index_bytes_per_token(llm));
    double block = kvt_engine_is(&start->facts, "hierarchy")
                       ? (double)kvt_engine_blocks_of(layout, llm).block_bytes
                       : resident;

    if (kvt_engine_knows(&start->facts, "pool_gib"))
        return fact(start, "pool_gib", 0);
    return fact(start, "pool_blocks", 0) * block / GIB;
}

/* A pool that a flag states is allocated whatever the fraction says. */
static kvt_status budget_given(struct engine_start *start, const struct kvt_scenario *scenario,
                               struct kvt_arena *arena, struct engine_budget *budget,
                               struct kvt_error *err)
{
    const struct kvt_decode_pool *pool = &scenario->pools[0];
    double room_gib = pool->hardware->hbm_gb * 1e9 / GIB - pool->weights_gib_per_gpu -
                      pool->hardware->workspace_gib;

    budget->unified_gib = given_pool_gib(start, scenario->llm);
    if (budget->unified_gib <= 0)
        return KVT_OK;
    budget->fraction = 1;
    if (budget->unified_gib <= room_gib)
        return KVT_OK;
    return note(&start->faults, arena,
                kvt_arena_printf(arena,
                                 "a pool of %.1f GiB is asked for, and a GPU has %.1f GiB beside "
                                 "%.1f of weights and %.1f of workspace: it runs out of memory",
                                 budget->unified_gib, fmax(room_gib, 0), pool->weights_gib_per_gpu,
                                 pool->hardware->workspace_gib),
                err);
}

static kvt_status find_budget(struct engine_start *start, const struct kvt_scenario *scenario,
                              struct kvt_arena *arena, struct engine_budget *budget,
                              struct kvt_error *err)
{
    const struct kvt_engine *engine = start->engine;
    const struct kvt_decode_pool *pool = &scenario->pools[0];
    double left_gib = kvt_hardware_kv_gib(pool->hardware, pool->weights_gib_per_gpu);
    bool offloads =
        !kvt_engine_is(&start->facts, "hierarchy") && kvt_engine_is(&start->facts, "offload");

    set(start, "host_node_gib", pool->hardware->host_dram_gib);
    if (engine->host_ratio > 0) {
        budget_tokens(start, scenario, left_gib, budget);
        if (offloads)
            set_default(start, "offload_gib",
                        fact(start, "offload_ratio", 2) * budget->unified_gib);
        if (offloads)
            budget_host(start, scenario, budget);
        return KVT_OK;
    }
    kvt_status status = budget_given(start, scenario, arena, budget, err);
    if (budget->unified_gib <= 0 && engine->fraction_of_free)
        budget->unified_gib = left_gib * fact(start, "memory_fraction", engine->memory_fraction);
    budget_host(start, scenario, budget);
    return status;
}

/* ---- The whole ------------------------------------------------------------------------------ */

static kvt_status note_assumptions(struct engine_start *start, const struct engine_recipe *recipe,
                                   bool hardware_given, struct kvt_arena *arena,
                                   struct kvt_error *err)
{
    kvt_status status = KVT_OK;
    const char *given = kvt_engine_text(&start->facts, "model");

    assert(recipe->model != NULL);
    if (!hardware_given)
        status = note(&start->assumed, arena,
                      kvt_arena_printf(arena, "the GPUs are %s (--hardware says otherwise)",
                                       recipe->hardware),
                      err);
    if (status == KVT_OK && given != NULL && strcmp(given, recipe->model) != 0)
        status =
            note(&start->assumed, arena,
                 kvt_arena_printf(arena, "%.80s is %s: its weights and rows", given, recipe->model),
                 err);
    if (status == KVT_OK && !kvt_engine_knows(&start->facts, "kv_dtype"))
        status =
            note(&start->assumed, arena,
                 kvt_arena_printf(arena, "KV rows of %.0f B, as %s", fact(start, "row_bytes", 0),
                                  recipe->row_bytes > 0 ? "the engine has them on this GPU"
                                                        : "the model's file has them"),
                 err);
    if (status == KVT_OK && fact(start, "pp", 1) > 1)
        status = note(&start->assumed, arena,
                      "pipeline stages are not modelled: sizes are of GPUs with all layers", err);
    if (status == KVT_OK && start->length_by == ENGINE_LENGTH_OF_MODEL)
        status = note(&start->assumed, arena,
                      kvt_arena_printf(arena, "the longest context is the model's own, %.0f tokens",
                                       fact(start, "max_tokens", 0)),
                      err);
    if (status == KVT_OK && !kvt_engine_knows(&start->facts, "memory_fraction"))
        status = note(&start->assumed, arena,
                      kvt_arena_printf(arena, "%g of memory is taken, the engine's default",
                                       start->engine->memory_fraction),
                      err);
    return status;
}

static void set_defaults(struct engine_start *start)
{
    double queries = fact(start, "queries", 1);

    set_default(start, "hierarchy", 0);
    set_default(start, "prefix_cache", 1);
    if (start->engine->max_requests > 0)
        set_default(start, "max_requests", start->engine->max_requests);
    set_default(start, "queries", 1);
    set_default(start, "staging", 0);
    if (!kvt_engine_knows(&start->facts, "method") && queries <= 1)
        kvt_engine_set_text(&start->facts, "method", "none");
    if (!kvt_engine_knows(&start->facts, "prefill"))
        kvt_engine_set_text(&start->facts, "prefill", "colocated");
    if (kvt_engine_knows(&start->facts, "offload_gib"))
        set_default(start, "offload", 1);
    set_default(start, "offload", 0);
}

/* Bytes of pools by the budget, without the share that speculation takes, in place of those that
 * the scenario would derive: an engine allocates what it allocates, whether or not that fits. */
static void put_pools(struct kvt_decode_pool *pool, const struct engine_budget *budget)
{
    double left_gib = kvt_hardware_kv_gib(pool->hardware, pool->weights_gib_per_gpu);
    double derived_bytes = floor((left_gib - pool->growth_reserve_gib) * GIB);
    double share_bytes = derived_bytes - (double)pool->index_pool_bytes;
    bool is_split = budget->rows_gib > 0;
    double index_bytes =
        is_split ? budget->index_gib * GIB : budget->unified_gib * GIB - share_bytes;
    double rows_bytes = is_split ? budget->rows_gib * GIB - share_bytes : 0;

    if (!pool->weights_fit || (budget->unified_gib <= 0 && !is_split))
        return;
    pool->index_pool_bytes = (uint64_t)fmax(index_bytes, 0);
    pool->rows_pool_bytes = (uint64_t)fmax(rows_bytes, 0);
}

/* A scenario that cannot be bound, or sized, is one that the engine would not start, or one that
 * nobody here can size: it is told, and nothing is sized. */
static kvt_status size_or_tell(struct engine_start *start, const struct engine_recipe *recipe,
                               const struct cli_texts *sets, const struct engine_lengths *lengths,
                               struct kvt_arena *arena, struct kvt_error *err)
{
    struct kvt_error why;
    struct engine_recipe derived = *recipe;

    derived.budget.unified_gib = derived.budget.index_gib = derived.budget.rows_gib = 0;
    cJSON *tree = engine_make_tree(start, &derived);
    if (tree == NULL)
        return kvt_fail_nomem(err, "a scenario");
    kvt_status status = bind(tree, sets, arena, &start->scenario, &why);
    cJSON_Delete(tree);
    if (status == KVT_OK)
        put_pools(&start->scenario.pools[0], &recipe->budget);

    if (status == KVT_OK)
        status = engine_size(start, lengths, &why);
    start->is_bound = status == KVT_OK;
    if (status == KVT_OK) {
        const struct kvt_size_side *side = &start->sizes[0].scenario;
        set(start, "running",
            (double)(start->engine->seats_of_all ? side->pools[0].running
                                                 : side->pools[0].running_per_gpu));
        return KVT_OK;
    }
    if (status == KVT_ERR_NOMEM)
        return kvt_fail_nomem(err, "a scenario");
    start->is_unknown = status == KVT_ERR_UNSUPPORTED;
    return note(&start->faults, arena,
                kvt_arena_printf(arena, "it cannot be sized: %s: %s", why.where, why.message), err);
}

/* The model and the GPU by themselves: the format of rows needs the one, the pool needs both. */
static kvt_status look_at_machine(struct engine_start *start, const struct cli_texts *sets,
                                  struct kvt_arena *arena, struct engine_recipe *recipe,
                                  struct kvt_scenario *out, struct kvt_error *err)
{
    struct engine_start plain = {.engine = start->engine, .facts = start->facts};
    kvt_status status = KVT_OK;

    kvt_engine_set_number(&plain.facts, "hierarchy", 0);
    kvt_engine_set_number(&plain.facts, "offload", 0);
    kvt_engine_set_text(&plain.facts, "method", "none");
    for (int pass = 0; status == KVT_OK && pass < 2; pass++) {
        cJSON *tree = engine_make_tree(&plain, recipe);

        status =
            tree != NULL ? bind(tree, sets, arena, out, err) : kvt_fail_nomem(err, "a scenario");
        cJSON_Delete(tree);
        if (status == KVT_OK && pass == 0) {
            recipe->format = engine_row_format(start, recipe->hardware);
            recipe->row_bytes = engine_format_bytes(recipe->format, out->llm);
        }
    }
    return status;
}

/* The longest context: of a flag, or the model's own; one that is to be what fits is known when the
 * pool is. */
static void choose_length_rule(struct engine_start *start, const struct kvt_llm *llm)
{
    if (kvt_engine_knows(&start->facts, "max_tokens"))
        start->length_by = ENGINE_LENGTH_GIVEN;
    else if (kvt_engine_is(&start->facts, "max_tokens_fitted"))
        start->length_by = ENGINE_LENGTH_FITTED;
    else
        set(start, "max_tokens", llm->max_position_tokens);
}

/* The longest request of the scenario that is printed: as asked, as flags say, or a usual one. What
 * was asked for must be a context of the model: that is no matter of the engine. */
static kvt_status choose_longest(const struct engine_start *start, const struct kvt_llm *llm,
                                 const struct engine_lengths *lengths, double *tokens,
                                 struct kvt_error *err)
{
    double most = llm->max_position_tokens;

    for (size_t i = 0; i < lengths->count; i++) {
        if (lengths->of[i] < KVT_ENGINE_TOKENS_MIN || lengths->of[i] > llm->max_position_tokens)
            return kvt_fail(err, KVT_ERR_INVALID, lengths->option,
                            "found %llu, expected %d (of a prompt and its answer) to %u, as many "
                            "tokens as %s takes",
                            (unsigned long long)lengths->of[i], KVT_ENGINE_TOKENS_MIN,
                            llm->max_position_tokens, llm->name);
    }
    *tokens = fmin(
        start->length_by == ENGINE_LENGTH_GIVEN ? fact(start, "max_tokens", 81920) : 81920, most);
    if (lengths->count > 0)
        *tokens = (double)lengths->of[0];
    return KVT_OK;
}

/* The scenario, sized; then once more with as many requests as run. */
static kvt_status finish(struct engine_start *start, struct engine_recipe *recipe,
                         const struct cli_texts *sets, const struct engine_lengths *lengths,
                         struct kvt_arena *arena, struct kvt_error *err)
{
    double dp = start->engine->seats_of_all ? 1 : fact(start, "dp", 1);
    kvt_status status = size_or_tell(start, recipe, sets, lengths, arena, err);

    if (status == KVT_OK && start->is_bound && fact(start, "running", 0) > 0)
        recipe->concurrency =
            fmin(fact(start, "running", 1), fact(start, "max_requests", 1e9)) * dp;
    if (status != KVT_OK)
        return status;
    start->tree = engine_make_tree(start, recipe);
    return start->tree != NULL ? KVT_OK : kvt_fail_nomem(err, "a scenario");
}

kvt_status engine_start(const struct kvt_engine *engine, const struct kvt_engine_facts *facts,
                        const char *hardware, const struct cli_texts *sets,
                        const struct engine_lengths *lengths, struct kvt_arena *arena,
                        struct engine_start *out, struct kvt_error *err)
{
    struct engine_start *start = out;
    struct kvt_scenario machine;
    struct engine_recipe recipe = {
        .hardware = hardware != NULL ? hardware : "h200", .tokens = 4096, .concurrency = 1};

    *start = (struct engine_start){.engine = engine, .facts = *facts};
    recipe.budget.fraction =
        engine->fraction_of_free ? 1 : fact(start, "memory_fraction", engine->memory_fraction);
    kvt_status status = find_model(start, arena, &recipe.model, err);
    if (status == KVT_OK)
        status = find_parallelism(start, err);
    if (status == KVT_OK) {
        set_defaults(start);
        status = look_at_machine(start, sets, arena, &recipe, &machine, err);
    }
    if (status != KVT_OK)
        return status;
    kvt_engine_set_text(&start->facts, "hardware", recipe.hardware);
    engine_model_facts(engine, machine.llm, &start->facts);
    set_hot_facts(start);
    choose_length_rule(start, machine.llm);
    status = note_assumptions(start, &recipe, hardware != NULL, arena, err);
    kvt_engine_set_text(&start->facts, "model", recipe.model);
    if (status == KVT_OK)
        status = choose_longest(start, machine.llm, lengths, &recipe.tokens, err);
    if (status == KVT_OK && machine.pools[0].weights_fit)
        status = find_budget(start, &machine, arena, &recipe.budget, err);
    return status == KVT_OK ? finish(start, &recipe, sets, lengths, arena, err) : status;
}

void engine_start_free(struct engine_start *start)
{
    cJSON_Delete(start->tree);
    start->tree = NULL;
}

/* export.c -- the answer as flags of an engine: the one place where a plan meets engines. */
#include <cjson/cJSON.h>
#include <stdio.h>

#include "../engine/engine.h"
#include "plan.h"

/* The bounds were found to hold with so many at once, and nobody has looked at more. 0: the load
 * does not say. */
static uint64_t most_at_once(const struct kvt_scenario *scenario)
{
    struct cli_along load;

    cli_along_read(scenario, &load);
    return load.concurrency > 0 ? (uint64_t)load.concurrency : 0;
}

kvt_status plan_export(const struct plan *plan, const struct plan_answer *answer,
                       struct plan_export *out, struct kvt_error *err)
{
    const struct plan_options *options = plan->question.options;
    const struct kvt_engine *engine = NULL;

    *out = (struct plan_export){.runs = true};
    if (options->engine == NULL || !answer->is_met)
        return KVT_OK;
    out->arena = kvt_arena_new(1 << 17);
    struct kvt_scenario *scenario =
        out->arena != NULL
            ? kvt_arena_alloc(out->arena, sizeof *scenario, _Alignof(struct kvt_scenario))
            : NULL;
    struct engine_export *found = scenario != NULL ? kvt_arena_alloc(out->arena, sizeof *found,
                                                                     _Alignof(struct engine_export))
                                                   : NULL;
    if (found == NULL)
        return kvt_fail_nomem(err, "an export");
    kvt_status status = kvt_engine_load(options->engine, cli_data_dir(), out->arena, &engine, err);
    if (status == KVT_OK)
        status = plan_load(plan, answer->best, answer->best->answer, PLAN_SIMULATED, out->arena,
                           scenario, err);
    if (status == KVT_OK)
        status = engine_export(engine, scenario, most_at_once(scenario), out->arena, found, err);
    if (status == KVT_OK)
        status = engine_export_tree(found, out->arena, &out->tree, err);
    if (status == KVT_OK) {
        out->found = found;
        out->runs = found->obstacle_count == 0;
    }
    return status;
}

kvt_status plan_export_print(struct plan_export *export, struct kvt_error *err)
{
    bool runs = true;

    if (export->found == NULL)
        return KVT_OK;
    printf("\n%s\n", export->found->engine->name);
    return engine_print_export(export->found, false, export->arena, &runs, err);
}

void plan_export_free(struct plan_export *export)
{
    cJSON_Delete(export->tree);
    kvt_arena_free(export->arena);
}

/* validate_public.c -- kvtide validate --suite public.
 *
 *     for each file of validation/public, and each of its points: run the scenario with the
 *     point's settings; keep the metrics that were published, or that a claim is about
 *
 * Nothing is fitted here: what a setting does not say is named in its file, with what is taken in
 * its place. Orders and ratios decide; numbers are told. */
#include "validate_public.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../list.h"

enum {
    PATH_BYTES = 4352
};

struct runner {
    const struct public_plan *plan;
    struct kvt_arena *arena;
    struct cli_progress progress;
    struct kvt_wall start;
    size_t points, points_done;
    const char *name;
};

static bool on_prepare(void *context, double fraction, const char *what)
{
    struct runner *runner = context;

    (void)fraction;
    cli_progress_show(&runner->progress, (double)runner->points_done / (double)runner->points,
                      what);
    return !cli_interrupted();
}

static void note_done(void *context, double done_fraction)
{
    struct runner *runner = context;

    if (done_fraction >= 0)
        cli_progress_show(&runner->progress,
                          ((double)runner->points_done + done_fraction) / (double)runner->points,
                          runner->name);
}

/* ---- One point ----------------------------------------------------------------------------------
 */

static double metric_of(const struct kvt_run *run, const cJSON *result, const char *name)
{
    static const char per_gpu[] = "total_token_throughput_per_gpu";
    const cJSON *metrics = kvt_json_find(result, "metrics");
    const cJSON *item =
        kvt_json_find(metrics, strcmp(name, per_gpu) == 0 ? "total_token_throughput" : name);
    double ns = (double)(run->total.to_ns - run->total.from_ns);

    if (strcmp(name, "held_mean") == 0) /* requests that hold a slot, as engines count theirs */
        return ns > 0 ? run->total.held_ns / ns : (double)NAN;
    if (!cJSON_IsNumber(item))
        return NAN;
    return strcmp(name, per_gpu) == 0 ? item->valuedouble / run->gpus : item->valuedouble;
}

static kvt_status keep(struct runner *runner, const struct kvt_run *run, struct public_point *point,
                       struct kvt_error *err)
{
    cJSON *result = NULL;
    kvt_status status = kvt_report_result(run, &result, err);

    if (status != KVT_OK)
        return status;
    const cJSON *basis = kvt_json_find(kvt_json_find(result, "metrics_basis"), "output_throughput");
    for (size_t v = 0; v < point->value_count; v++)
        point->values[v].ours = metric_of(run, result, point->values[v].metric);
    point->basis =
        kvt_arena_strdup(runner->arena, cJSON_IsString(basis) ? basis->valuestring : "unknown");
    cJSON_Delete(result);
    return point->basis ? KVT_OK : kvt_fail_nomem(err, "a published measurement");
}

/* What is asked of all points may mean nothing to some, and each point's own settings stand. */
static kvt_status load(const struct runner *runner, const struct public_setting *setting,
                       const struct public_point *point, struct kvt_scenario *scenario,
                       struct kvt_error *err)
{
    const struct cli_texts *more = runner->plan->sets;
    size_t count = point->set_count + more->count;
    const char **sets = kvt_arena_array(runner->arena, count + 1, sizeof *sets, _Alignof(char *));

    if (!sets)
        return kvt_fail_nomem(err, "a published measurement");
    if (more->count > 0)
        memcpy(sets, more->items, more->count * sizeof *sets);
    memcpy(sets + more->count, point->sets, point->set_count * sizeof *sets);
    const struct kvt_scenario_options options = {.data_dir = cli_data_dir(),
                                                 .plugins = cli_plugins(),
                                                 .sets = sets,
                                                 .set_count = count,
                                                 .common_sets = more->count};
    if (setting->scenario)
        return kvt_scenario_load(setting->scenario, &options, runner->arena, scenario, err);
    return kvt_scenario_parse(setting->scenario_text, strlen(setting->scenario_text), setting->path,
                              &options, runner->arena, scenario, err);
}

static kvt_status run_point(struct runner *runner, const struct public_setting *setting,
                            struct public_point *point, struct kvt_error *err)
{
    const struct kvt_sim_options options = {.threads = runner->plan->threads,
                                            .cache_dir = runner->plan->cache_dir,
                                            .on_prepare = on_prepare,
                                            .prepare_context = runner};
    struct kvt_scenario scenario;
    const struct kvt_run *run = NULL;
    struct kvt_sim *sim = NULL;
    bool interrupted = false;
    kvt_status status = load(runner, setting, point, &scenario, err);

    runner->name = setting->name;
    if (status != KVT_OK)
        return status;
    status = kvt_sim_new(&scenario, &options, &sim, err);
    if (status == KVT_OK)
        status = cli_advance(sim, note_done, runner, &interrupted, err);
    if (status == KVT_OK && interrupted)
        status = kvt_fail(err, KVT_ERR_INTERRUPTED, "validate", "a signal ended it");
    if (status == KVT_OK)
        status = kvt_sim_finish(sim, false, &run, err);
    if (status == KVT_OK)
        status = keep(runner, run, point, err);
    else
        kvt_scenario_locate(&scenario, err);
    kvt_sim_free(sim);
    runner->points_done++;
    return status;
}

/* ---- Claims ---------------------------------------------------------------------------------- */

static const struct public_value *value_of(const struct public_point *point, const char *metric)
{
    for (size_t v = 0; v < point->value_count; v++) {
        if (strcmp(point->values[v].metric, metric) == 0)
            return &point->values[v];
    }
    return NULL;
}

static double ours_of(const struct public_setting *setting, size_t point, const char *metric)
{
    const struct public_value *value = value_of(&setting->points[point], metric);
    return value ? value->ours : (double)NAN;
}

static void judge_numbers(const struct public_setting *setting, struct public_claim *claim)
{
    for (size_t p = 0; p < setting->point_count; p++) {
        const struct public_value *value = value_of(&setting->points[p], claim->metric);
        if (!value || isnan(value->measured) || value->is_calibrated)
            continue;
        claim->numbers++;
        claim->within += fabs(value->ours / value->measured - 1) <= claim->tolerance;
    }
    claim->holds = claim->within == claim->numbers;
}

static void judge_order(const struct public_setting *setting, struct public_claim *claim)
{
    claim->holds = true;
    for (size_t i = 1; i < claim->point_count; i++)
        claim->holds = claim->holds && ours_of(setting, claim->points[i], claim->metric) >
                                           ours_of(setting, claim->points[i - 1], claim->metric);
}

static void judge_ratio(const struct public_setting *setting, struct public_claim *claim)
{
    const struct public_value *of = value_of(&setting->points[claim->points[0]], claim->metric);
    const struct public_value *over = value_of(&setting->points[claim->points[1]], claim->metric);

    if (!of || !over)
        return;
    claim->measured = of->measured / over->measured;
    claim->ours = of->ours / over->ours;
    claim->holds = claim->ours >= claim->least && claim->ours <= claim->most;
}

void public_setting_judge(struct public_setting *setting)
{
    for (size_t c = 0; c < setting->claim_count; c++) {
        struct public_claim *claim = &setting->claims[c];
        if (claim->kind == PUBLIC_NUMBER)
            judge_numbers(setting, claim);
        else if (claim->kind == PUBLIC_ORDER)
            judge_order(setting, claim);
        else
            judge_ratio(setting, claim);
    }
}

/* What a claim is about is a value of its points, measured or not. */
static kvt_status add_claimed(struct public_setting *setting, struct kvt_error *err)
{
    for (size_t c = 0; c < setting->claim_count; c++) {
        const struct public_claim *claim = &setting->claims[c];
        for (size_t i = 0; i < claim->point_count; i++) {
            struct public_point *point = &setting->points[claim->points[i]];
            if (value_of(point, claim->metric))
                continue;
            if (point->value_count == PUBLIC_VALUES_MAX)
                return kvt_fail(err, KVT_ERR_INVALID, setting->path,
                                "point \"%s\" has more than %d values", point->name,
                                PUBLIC_VALUES_MAX);
            point->values[point->value_count++] =
                (struct public_value){.metric = claim->metric, .measured = NAN, .ours = NAN};
        }
    }
    return KVT_OK;
}

/* ---- The suite ------------------------------------------------------------------------------- */

static bool is_wanted(const struct public_plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->names->count; i++) {
        if (strcmp(plan->names->items[i], name) == 0)
            return true;
    }
    return plan->names->count == 0;
}

static kvt_status load_settings(const struct public_plan *plan, const struct list_names *names,
                                struct kvt_arena *arena, struct public_outcome *out,
                                struct kvt_error *err)
{
    char path[PATH_BYTES];

    out->settings = kvt_arena_array(arena, names->count + 1, sizeof(struct public_setting *),
                                    _Alignof(struct public_setting *));
    if (!out->settings)
        return kvt_fail_nomem(err, "published measurements");
    for (size_t i = 0; i < names->count; i++) {
        if (!is_wanted(plan, names->items[i]))
            continue;
        (void)snprintf(path, sizeof path, "%s/public/%s.json", cli_data_dir(), names->items[i]);
        struct public_setting **setting = &out->settings[out->count];
        kvt_status status = public_setting_load(path, arena, setting, err);
        if (status == KVT_OK)
            status = add_claimed(*setting, err);
        if (status != KVT_OK)
            return status;
        out->count++;
    }
    return KVT_OK;
}

static kvt_status check_names(const struct public_plan *plan, const struct list_names *names,
                              struct kvt_error *err)
{
    for (size_t i = 0; i < plan->names->count; i++) {
        kvt_status status = list_names_check(names, plan->names->items[i], "published setting", "",
                                             "validate --suite public", err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

static kvt_status run_settings(struct runner *runner, struct public_outcome *out,
                               struct kvt_error *err)
{
    for (size_t s = 0; s < out->count; s++)
        runner->points += out->settings[s]->point_count;
    for (size_t s = 0; s < out->count; s++) {
        struct public_setting *setting = out->settings[s];
        for (size_t p = 0; p < setting->point_count; p++) {
            kvt_status status = run_point(runner, setting, &setting->points[p], err);
            if (status != KVT_OK)
                return status;
        }
        public_setting_judge(setting);
    }
    return KVT_OK;
}

kvt_status validate_public(const struct public_plan *plan, struct kvt_arena *arena,
                           struct public_outcome *out, struct kvt_error *err)
{
    struct runner runner = {.plan = plan, .arena = arena};
    struct list_names names;

    *out = (struct public_outcome){.count = 0};
    kvt_status status = list_names_read("public", &names, err);
    if (status != KVT_OK)
        return status;
    status = check_names(plan, &names, err);
    if (status == KVT_OK)
        status = load_settings(plan, &names, arena, out, err);
    list_names_free(&names);
    if (status != KVT_OK)
        return status;
    cli_progress_begin(&runner.progress, &runner.start, plan->quiet);
    status = run_settings(&runner, out, err);
    cli_progress_end(&runner.progress);
    return status;
}

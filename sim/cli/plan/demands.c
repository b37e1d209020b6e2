/* demands.c -- what must hold, as far as the scenario says it: its classes of service, and what may
 * fail meanwhile. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/json.h"
#include "plan.h"

/* ---- Classes -----------------------------------------------------------------------------------
 */

static kvt_status add_class(struct plan *plan, const struct kvt_slo_class *class_of,
                            struct kvt_error *err)
{
    struct plan_question *question = &plan->question;
    char share[32];

    if (question->bound_count == PLAN_BOUNDS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, "plan --slo", "more than %d bounds", PLAN_BOUNDS_MAX);
    kvt_json_print_number(class_of->attain, share);
    struct plan_bound *bound = &question->bounds[question->bound_count];
    *bound = (struct plan_bound){
        .text = kvt_arena_printf(plan->arena, "class:%s>=%s", class_of->name, share),
        .op = KVT_GREATER_EQUAL,
        .limit = class_of->attain,
        .class_name = kvt_arena_strdup(plan->arena, class_of->name)};
    if (bound->text == NULL || bound->class_name == NULL)
        return kvt_fail_nomem(err, "a bound");
    question->bound_count++;
    return KVT_OK;
}

static kvt_status add_classes(struct plan *plan, const struct kvt_scenario *scenario,
                              const char *word, struct kvt_error *err)
{
    bool all = strcmp(word, "classes") == 0;
    bool found = false;

    for (uint32_t i = 0; i < scenario->slo_class_count; i++) {
        if (!all && strcmp(scenario->slo_classes[i].name, word + strlen("class:")) != 0)
            continue;
        kvt_status status = add_class(plan, &scenario->slo_classes[i], err);
        if (status != KVT_OK)
            return status;
        found = true;
    }
    if (found)
        return KVT_OK;
    if (scenario->slo_class_count == 0)
        return kvt_fail(err, KVT_ERR_INVALID, "plan --slo",
                        "\"%.100s\", but %s has no slo.classes; --set slo.classes=[..] gives it "
                        "some",
                        word, scenario->name);
    return kvt_fail(err, KVT_ERR_INVALID, "plan --slo",
                    "no class \"%.100s\" among the %u of slo.classes; the first is %s",
                    word + strlen("class:"), scenario->slo_class_count,
                    scenario->slo_classes[0].name);
}

bool plan_is_of_classes(const char *word)
{
    return strcmp(word, "classes") == 0 || strncmp(word, "class:", strlen("class:")) == 0;
}

/* ---- What fails --------------------------------------------------------------------------------
 */

/* "rank=N" or "node=N", with "@SECONDS" where the scenario does not say when it ends: half of its
 * duration is the time unless given. An object is a fault as cluster.faults takes one. */
static kvt_status read_fault(const char *text, const struct kvt_scenario *scenario,
                             struct plan_question *question, struct kvt_arena *arena,
                             struct kvt_error *err)
{
    static const char where[] = "plan --survive";
    const char **out = &question->survive_set;
    size_t kind = strcspn(text, "="), digits = 0;
    const char *at = strchr(text, '@');
    char number[16];
    char seconds[32];
    uint64_t count = 0;
    double at_s = scenario->duration_s / 2;

    if (text[0] == '{') {
        *out = kvt_arena_printf(arena, "cluster.faults=[%s]", text);
        return *out != NULL ? KVT_OK : kvt_fail_nomem(err, "a fault");
    }
    if (text[kind] == '=')
        digits = strcspn(text + kind + 1, "@");
    if (kind != 4 || (strncmp(text, "rank", 4) != 0 && strncmp(text, "node", 4) != 0) ||
        digits == 0 || digits >= sizeof number)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "found \"%.100s\", expected rank=N, node=N, one of them with @SECONDS "
                        "behind it, or a fault as cluster.faults takes it",
                        text);
    memcpy(number, text + kind + 1, digits);
    number[digits] = '\0';
    kvt_status status = kvt_text_count(number, where, 256, &count, err);
    if (status == KVT_OK && at != NULL)
        status = kvt_text_real(at + 1, where, 0, 1e9, &at_s, err);
    if (status != KVT_OK)
        return status;
    if (count == 0 || (at == NULL && at_s == 0))
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        count == 0 ? "\"%.100s\" asks for no fault; 1 or more is expected"
                                   : "\"%.100s\" says no time, and run.duration_s is 0; @SECONDS "
                                     "behind it is expected",
                        text);
    kvt_json_print_number(at_s, seconds);
    const char *list = "";
    for (uint64_t i = 0; list != NULL && i < count; i++)
        list = kvt_arena_printf(arena, "%s%s{\"kind\": \"%.4s\", \"at_s\": %s}", list,
                                i > 0 ? ", " : "", text, seconds);
    question->survive_at_s = at_s;
    question->survive_ranks = text[0] == 'r' ? (uint32_t)count : 0;
    question->survive_nodes = text[0] == 'n' ? (uint32_t)count : 0;
    *out = list != NULL ? kvt_arena_printf(arena, "cluster.faults=[%s]", list) : NULL;
    return *out != NULL ? KVT_OK : kvt_fail_nomem(err, "a fault");
}

static kvt_status check_count(const char *what, uint32_t found, uint32_t there,
                              struct kvt_error *err)
{
    char expected[32] = "1 is";

    if (found <= there)
        return KVT_OK;
    if (there > 1)
        (void)snprintf(expected, sizeof expected, "1 to %u are", there);
    return kvt_fail(err, KVT_ERR_INVALID, "plan --survive",
                    "found %s=%u, but cluster.decode has %u %s%s; %s expected", what, found, there,
                    what, there == 1 ? "" : "s", expected);
}

kvt_status plan_check_survive(const struct plan_question *question,
                              const struct kvt_scenario *scenario, struct kvt_error *err)
{
    kvt_status status =
        check_count("rank", question->survive_ranks, kvt_scenario_rank_count(scenario), err);

    if (status == KVT_OK)
        status =
            check_count("node", question->survive_nodes, kvt_scenario_node_count(scenario), err);
    return status;
}

/* ---- What a metric takes -----------------------------------------------------------------------
 */

/* What a scenario lacks for a metric to have a value in any run of it; NULL: nothing. */
static const char *lacking(const char *metric, const struct kvt_scenario *scenario)
{
    static const char *const of_steps[] = {"admission_after_step_s", "first_tokens_after_step_s",
                                           "worst_itl_second_ms", "coverage_regain_s"};

    if (strncmp(metric, "usd_per_", 8) == 0 && !scenario->has_usd)
        return "a price: cluster.decode.usd_per_gpu_hour";
    if ((strcmp(metric, "mean_power_watts") == 0 || strcmp(metric, "energy_kwh") == 0 ||
         strcmp(metric, "joules_per_output_token") == 0) &&
        !scenario->has_watts)
        return "watts: cluster.decode.busy_watts_per_gpu and idle_watts_per_gpu";
    if ((strcmp(metric, "request_goodput") == 0 || strncmp(metric, "slo_", 4) == 0) &&
        scenario->slo_class_count == 0)
        return "classes of service: slo.classes";
    if (strcmp(metric, "prefill_busy_share") == 0 && scenario->prefill.mode != KVT_PREFILL_SEPARATE)
        return "prefill servers: cluster.prefill.mode=separate";
    for (size_t i = 0; i < sizeof of_steps / sizeof of_steps[0]; i++) {
        if (strcmp(metric, of_steps[i]) == 0 && scenario->arrival.info != NULL &&
            strcmp(scenario->arrival.info->name, "phases") != 0)
            return "a load that steps: two workload.phases";
    }
    return NULL;
}

kvt_status plan_check_metrics(const struct plan_question *question,
                              const struct kvt_scenario *scenario, struct kvt_error *err)
{
    size_t count = 0;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&count);

    for (size_t b = 0; b <= question->bound_count; b++) {
        bool is_bound = b < question->bound_count;
        if (is_bound ? question->bounds[b].class_name != NULL : question->path != NULL)
            continue;
        const char *name = docs[is_bound ? question->bounds[b].metric : question->metric].name;
        const char *lacks = lacking(name, scenario);
        if (lacks != NULL)
            return kvt_fail(err, KVT_ERR_INVALID,
                            is_bound              ? "plan --slo"
                            : question->maximizes ? "plan --maximize"
                                                  : "plan --minimize",
                            "%s has no value in any run of this scenario; it takes %s", name,
                            lacks);
    }
    return KVT_OK;
}

/* ---- Who never got there -----------------------------------------------------------------------
 */

double plan_stranded(const struct cJSON *result)
{
    const cJSON *fault, *requests = kvt_json_find(result, "requests");
    double outstanding = 0, down = 0;

    cJSON_ArrayForEach(fault, kvt_json_find(result, "faults"))
    {
        const cJSON *of = kvt_json_find(kvt_json_find(fault, "requests"), "not_recovered");
        const cJSON *ranks = kvt_json_find(fault, "ranks_down");
        outstanding += cJSON_IsNumber(of) ? of->valuedouble : 0;
        if (cJSON_IsNumber(ranks) && cJSON_IsNull(kvt_json_find(fault, "back_at_s")))
            down += ranks->valuedouble;
    }
    const cJSON *waiting = kvt_json_find(requests, "waiting");
    const cJSON *running = kvt_json_find(requests, "running");
    bool nobody_serves = down > 0 && cJSON_IsNumber(running) && running->valuedouble == 0;
    return nobody_serves && cJSON_IsNumber(waiting) ? fmax(waiting->valuedouble, outstanding)
                                                    : outstanding;
}

bool plan_is_of_requests(const struct plan_bound *bound)
{
    static const char *const ends[] = {"_ttft_ms", "_tpot_ms", "_itl_ms", "_e2el_ms"};
    size_t count = 0;

    if (bound->class_name != NULL)
        return true;
    const char *name = kvt_metric_docs(&count)[bound->metric].name;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t length = strlen(name), of_end = strlen(ends[i]);
        if (length > of_end && strcmp(name + length - of_end, ends[i]) == 0)
            return true;
    }
    return false;
}

kvt_status plan_read_demands(struct plan *plan, const struct kvt_scenario *scenario,
                             struct kvt_error *err)
{
    const struct plan_options *options = plan->question.options;
    kvt_status status = KVT_OK;

    for (size_t i = 0; status == KVT_OK && i < options->slo.count; i++) {
        if (plan_is_of_classes(options->slo.items[i]))
            status = add_classes(plan, scenario, options->slo.items[i], err);
    }
    if (status == KVT_OK && options->survive != NULL)
        status = read_fault(options->survive, scenario, &plan->question, plan->arena, err);
    return status;
}

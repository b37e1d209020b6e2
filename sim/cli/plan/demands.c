/* demands.c -- what must hold, as far as the scenario says it: its classes of service, and what may
 * fail meanwhile. */
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
                             struct kvt_arena *arena, const char **out, struct kvt_error *err)
{
    static const char where[] = "plan --survive";
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
    *out = list != NULL ? kvt_arena_printf(arena, "cluster.faults=[%s]", list) : NULL;
    return *out != NULL ? KVT_OK : kvt_fail_nomem(err, "a fault");
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
        status =
            read_fault(options->survive, scenario, plan->arena, &plan->question.survive_set, err);
    return status;
}

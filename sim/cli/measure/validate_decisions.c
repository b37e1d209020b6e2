/* validate_decisions.c -- kvtide validate --suite decisions: golden calls, then the grid, as JSON
 * and for people. */
#include "validate_decisions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kvt_status validate_decisions(const struct decisions_plan *plan, struct decisions_outcome *out,
                              struct kvt_error *err)
{
    kvt_status status = validate_golden(&out->golden, err);
    return status == KVT_OK ? validate_grid(plan, out, err) : status;
}

void decisions_free(struct decisions_outcome *outcome)
{
    free(outcome->first_mismatch);
    validate_free_texts(&outcome->texts);
    cJSON_Delete(outcome->machine);
    *outcome = (struct decisions_outcome){0};
}

static bool is_broken_off(const struct decisions_outcome *outcome)
{
    return outcome->interrupted || outcome->failure[0] != '\0';
}

/* What is wrong with the attention of any opening, as a sentence; NULL: nothing. */
static const char *attention_fault(const struct decisions_plan *plan,
                                   const struct decisions_outcome *outcome)
{
    if (plan->corrupt)
        return outcome->corruption;
    if (outcome->proof.unequal_queries > 0)
        return "attention differs from the same computed again";
    return kvt_backend_proof_is_precise(&outcome->proof, outcome->tolerance)
               ? NULL
               : "attention is too far from double precision";
}

bool decisions_are_good(const struct decisions_plan *plan, const struct decisions_outcome *outcome)
{
    return outcome->golden.mismatches == 0 && outcome->mismatches == 0 && outcome->calls > 0 &&
           !is_broken_off(outcome) && !attention_fault(plan, outcome);
}

static struct kvt_badge badge_of(const struct decisions_plan *plan,
                                 const struct decisions_outcome *outcome)
{
    const struct kvt_badge_facts facts = {
        .on_gpu = plan->on_gpu,
        .in_range_share = (double)NAN,
        .is_compared = true,
        .is_broken_off = is_broken_off(outcome),
        .calls = outcome->calls,
        .mismatches = outcome->mismatches + outcome->golden.mismatches,
        .scaled = outcome->proof.scaled,
        .device_calls = outcome->proof.calls,
    };
    struct kvt_badge badge;

    kvt_badge_of(&facts, &badge);
    return badge;
}

/* ---- As JSON ---------------------------------------------------------------------- */

static double calls_per_s(const struct decisions_cell *cell)
{
    return cell->seconds > 0 ? (double)cell->calls / cell->seconds : (double)NAN;
}

static bool add_cells(cJSON *tree, const struct decisions_outcome *outcome)
{
    cJSON *list = cJSON_CreateArray();
    bool ok = kvt_json_add(tree, "cells", list);

    for (size_t c = 0; c < outcome->cell_count && ok; c++) {
        const struct decisions_cell *cell = &outcome->cells[c];
        cJSON *entry = kvt_json_add_element(list);
        ok = entry && kvt_json_add_text(entry, "policy", cell->policy) &&
             kvt_json_add_text(entry, "decided", cell->on_device ? "device" : "host") &&
             kvt_json_add_text(entry, "mode", decisions_mode_names[cell->mode]) &&
             kvt_json_add_number(entry, "queries", cell->queries) &&
             kvt_json_add_number(entry, "hot_tokens", (double)cell->hot_tokens) &&
             kvt_json_add_number(entry, "coverage", cell->coverage) &&
             kvt_json_add_number(entry, "calls", (double)cell->calls) &&
             kvt_json_add_number(entry, "cache_states", (double)cell->states) &&
             kvt_json_add_number(entry, "mismatches", (double)cell->mismatches) &&
             kvt_json_add_number(entry, "calls_per_s", calls_per_s(cell));
    }
    return ok;
}

static bool add_golden(cJSON *tree, const struct golden_outcome *golden)
{
    cJSON *object = kvt_json_add_object(tree, "golden");

    return object && kvt_json_add_number(object, "files", golden->files) &&
           kvt_json_add_number(object, "calls", golden->calls) &&
           kvt_json_add_number(object, "mismatches", golden->mismatches) &&
           kvt_json_add_text(object, "first_mismatch", golden->first[0] ? golden->first : NULL);
}

kvt_status decisions_tree(const struct decisions_plan *plan,
                          const struct decisions_outcome *outcome, cJSON **out,
                          struct kvt_error *err)
{
    cJSON *tree = cJSON_CreateObject();
    char shard[32];

    const struct kvt_badge badge = badge_of(plan, outcome);
    (void)snprintf(shard, sizeof shard, "%u/%u", plan->shard + 1, plan->shards);
    bool ok =
        tree && kvt_json_add_text(tree, "schema", "kvtide/validate/1") &&
        kvt_json_add_text(tree, "suite", "decisions") &&
        kvt_json_add_bool(tree, "good", decisions_are_good(plan, outcome)) &&
        kvt_badge_add(tree, &badge) &&
        kvt_json_add_text(tree, "broken_off", outcome->failure[0] ? outcome->failure : NULL) &&
        kvt_json_add_text(tree, "backend", plan->on_gpu ? "cuda" : "sim") &&
        kvt_json_add_bool(tree, "corrupt", plan->corrupt) &&
        kvt_json_add_text(tree, "shard", shard) &&
        kvt_json_add_bool(tree, "interrupted", outcome->interrupted) &&
        kvt_json_add(tree, "machine",
                     outcome->machine ? cJSON_Duplicate(outcome->machine, true)
                                      : cJSON_CreateNull()) &&
        kvt_json_add_text(tree, "model", outcome->model) &&
        kvt_json_add_number(tree, "requests", outcome->requests) &&
        kvt_json_add_number(tree, "context_tokens", outcome->context_tokens) &&
        kvt_json_add_number(tree, "calls", (double)outcome->calls) &&
        kvt_json_add_number(tree, "mismatches", (double)outcome->mismatches) &&
        kvt_json_add_text(tree, "first_mismatch", outcome->first_mismatch) &&
        add_golden(tree, &outcome->golden) &&
        validate_add_attention(tree, &outcome->proof, outcome->tolerance) &&
        add_cells(tree, outcome);
    if (!ok) {
        cJSON_Delete(tree);
        return kvt_fail_nomem(err, "the result of a validation");
    }
    *out = tree;
    return KVT_OK;
}

/* ---- For people ------------------------------------------------------------------------ */

/* Coverages of one policy, mode, K and hot cache stand side by side. */
static size_t print_line(const struct decisions_outcome *outcome, size_t first)
{
    const struct decisions_cell *cell = &outcome->cells[first];
    uint64_t mismatches = 0;
    size_t c = first;

    printf("%-11s %-7s %-10s %2u %6llu", cell->policy, cell->on_device ? "device" : "host",
           decisions_mode_names[cell->mode], cell->queries, (unsigned long long)cell->hot_tokens);
    for (; c < outcome->cell_count; c++) {
        const struct decisions_cell *next = &outcome->cells[c];
        if (strcmp(next->policy, cell->policy) != 0 || next->mode != cell->mode ||
            next->queries != cell->queries || next->hot_tokens != cell->hot_tokens)
            break;
        printf(" %7llu %9.0f", (unsigned long long)next->calls, calls_per_s(next));
        mismatches += next->mismatches;
    }
    printf(" %6llu\n", (unsigned long long)mismatches);
    return c;
}

static void print_verdict(const struct decisions_plan *plan,
                          const struct decisions_outcome *outcome)
{
    bool good = decisions_are_good(plan, outcome);
    const char *fault = attention_fault(plan, outcome);

    if (outcome->failure[0])
        printf("broken off: %s\n", outcome->failure);
    if (plan->corrupt && good)
        printf("yes: of %llu bytes that were flipped in host memory every one was found, and "
               "nothing else differs\n",
               (unsigned long long)outcome->proof.corrupted_rows);
    else if (plan->corrupt && fault)
        printf("no: %s\n", fault);
    else
        printf("%s: %llu calls, %llu rounds or steps differ%s%s%s%s\n", good ? "yes" : "no",
               (unsigned long long)outcome->calls, (unsigned long long)outcome->mismatches,
               fault ? "; " : "", fault ? fault : "",
               plan->on_gpu ? "" : " (the simulator against itself: proves the driver, not a GPU)",
               is_broken_off(outcome) ? "; broken off, so that this is part of it" : "");
}

void decisions_print(const struct decisions_plan *plan, const struct decisions_outcome *outcome)
{
    const struct golden_outcome *golden = &outcome->golden;

    printf("golden calls: %u of %u files by the simulator's resolver, %u differ%s%s\n",
           golden->calls, golden->files, golden->mismatches, golden->first[0] ? ": " : "",
           golden->first);
    printf("%s, %u requests of %u tokens\n\n%-11s %-7s %-10s %2s %6s %17s %17s %17s %6s\n",
           outcome->model, outcome->requests, outcome->context_tokens, "policy", "decided", "mode",
           "K", "hot", "calls, /s: cov. 0", "coverage 0.5", "coverage 1", "differ");
    for (size_t c = 0; c < outcome->cell_count;)
        c = print_line(outcome, c);
    putchar('\n');
    if (plan->on_gpu)
        validate_print_attention(&outcome->proof, outcome->tolerance);
    if (outcome->first_mismatch)
        printf("first mismatch: %s\n", outcome->first_mismatch);
    const struct kvt_badge badge = badge_of(plan, outcome);
    cli_print_badge(&badge);
    print_verdict(plan, outcome);
}

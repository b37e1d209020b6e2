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
    free(outcome->first_unequal);
    cJSON_Delete(outcome->machine);
    *outcome = (struct decisions_outcome){0};
}

bool decisions_are_good(const struct decisions_plan *plan, const struct decisions_outcome *outcome)
{
    bool alike = outcome->golden.mismatches == 0 && outcome->mismatches == 0 &&
                 outcome->calls > 0 && !outcome->interrupted;
    const struct kvt_backend_proof *proof = &outcome->proof;

    if (plan->corrupt)
        return alike && proof->unequal_queries > 0;
    return alike && proof->unequal_queries == 0 && proof->max_rel_error <= outcome->tolerance;
}

/* ---- As JSON ---------------------------------------------------------------------- */

static bool add(cJSON *object, const char *key, cJSON *item)
{
    if (item && cJSON_AddItemToObject(object, key, item))
        return true;
    cJSON_Delete(item);
    return false;
}

static bool add_number(cJSON *object, const char *key, double value)
{
    return add(object, key, isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull());
}

static bool add_text(cJSON *object, const char *key, const char *text)
{
    return add(object, key, text ? cJSON_CreateString(text) : cJSON_CreateNull());
}

static double calls_per_s(const struct decisions_cell *cell)
{
    return cell->seconds > 0 ? (double)cell->calls / cell->seconds : (double)NAN;
}

static bool add_cells(cJSON *tree, const struct decisions_outcome *outcome)
{
    cJSON *list = cJSON_CreateArray();
    bool ok = add(tree, "cells", list);

    for (size_t c = 0; c < outcome->cell_count && ok; c++) {
        const struct decisions_cell *cell = &outcome->cells[c];
        cJSON *entry = cJSON_CreateObject();
        if (!entry || !cJSON_AddItemToArray(list, entry)) {
            cJSON_Delete(entry);
            return false;
        }
        ok = add_text(entry, "policy", cell->policy) &&
             add_text(entry, "decided", cell->on_device ? "device" : "host") &&
             add_text(entry, "mode", decisions_mode_names[cell->mode]) &&
             add_number(entry, "queries", cell->queries) &&
             add_number(entry, "hot_tokens", (double)cell->hot_tokens) &&
             add_number(entry, "coverage", cell->coverage) &&
             add_number(entry, "calls", (double)cell->calls) &&
             add_number(entry, "cache_states", (double)cell->states) &&
             add_number(entry, "mismatches", (double)cell->mismatches) &&
             add_number(entry, "calls_per_s", calls_per_s(cell));
    }
    return ok;
}

static bool add_golden(cJSON *tree, const struct golden_outcome *golden)
{
    cJSON *object = cJSON_CreateObject();

    return add(tree, "golden", object) && add_number(object, "files", golden->files) &&
           add_number(object, "calls", golden->calls) &&
           add_number(object, "mismatches", golden->mismatches) &&
           add_text(object, "first_mismatch", golden->first[0] ? golden->first : NULL);
}

kvt_status decisions_tree(const struct decisions_plan *plan,
                          const struct decisions_outcome *outcome, cJSON **out,
                          struct kvt_error *err)
{
    cJSON *tree = cJSON_CreateObject();
    char shard[32];

    (void)snprintf(shard, sizeof shard, "%u/%u", plan->shard + 1, plan->shards);
    bool ok =
        tree && add_text(tree, "schema", "kvtide/validate/1") &&
        add_text(tree, "suite", "decisions") &&
        add(tree, "good", cJSON_CreateBool(decisions_are_good(plan, outcome))) &&
        add_text(tree, "backend", plan->on_gpu ? "cuda" : "sim") &&
        add(tree, "corrupt", cJSON_CreateBool(plan->corrupt)) && add_text(tree, "shard", shard) &&
        add(tree, "interrupted", cJSON_CreateBool(outcome->interrupted)) &&
        add(tree, "machine",
            outcome->machine ? cJSON_Duplicate(outcome->machine, true) : cJSON_CreateNull()) &&
        add_text(tree, "model", outcome->model) &&
        add_number(tree, "requests", outcome->requests) &&
        add_number(tree, "context_tokens", outcome->context_tokens) &&
        add_number(tree, "calls", (double)outcome->calls) &&
        add_number(tree, "mismatches", (double)outcome->mismatches) &&
        add_text(tree, "first_mismatch", outcome->first_mismatch) &&
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
    bool good = decisions_are_good(plan, outcome);
    if (plan->corrupt)
        printf("%s: the bytes that were flipped in host memory %s\n", good ? "yes" : "no",
               good ? "were found" : "were not found, or decisions differ");
    else
        printf("%s: %llu calls, %llu rounds or steps differ%s%s\n", good ? "yes" : "no",
               (unsigned long long)outcome->calls, (unsigned long long)outcome->mismatches,
               plan->on_gpu ? "" : " (the simulator against itself: proves the driver, not a GPU)",
               outcome->interrupted ? "; interrupted, so that this is part of it" : "");
}

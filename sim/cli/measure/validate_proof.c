/* validate_proof.c -- what every comparison with a GPU says in the same words of attention, of
 * imports and of the machine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "validate.h"

/* ---- Texts that outlive a backend ---------------------------------------------------------- */

static bool keep_text(const char **text, char **kept)
{
    if (!*text || *text == *kept)
        return true;
    free(*kept);
    *text = *kept = strdup(*text);
    return *kept != NULL;
}

kvt_status validate_keep_texts(struct kvt_backend_proof *proof, struct validate_texts *texts,
                               struct kvt_error *err)
{
    bool ok = keep_text(&proof->first_unequal, &texts->first_unequal);

    ok = keep_text(&proof->not_representative, &texts->not_representative) && ok;
    ok = keep_text(&proof->scaled, &texts->scaled) && ok;
    return ok ? KVT_OK : kvt_fail_nomem(err, "what was found");
}

void validate_free_texts(struct validate_texts *texts)
{
    free(texts->first_unequal);
    free(texts->not_representative);
    free(texts->scaled);
    *texts = (struct validate_texts){0};
}

/* ---- Attention ----------------------------------------------------------------------------- */

double validate_tolerance_of(const struct kvt_choice *backend)
{
    for (size_t i = 0; i < backend->info->param_count; i++) {
        if (strcmp(backend->info->params[i].name, "output") == 0 &&
            strcmp(backend->params.values[i].text, "f32") == 0)
            return 1e-3;
    }
    return 3e-3;
}

bool validate_add_attention(cJSON *object, const struct kvt_backend_proof *proof, double tolerance)
{
    cJSON *attention = kvt_json_add_object(object, "attention");
    bool compared = proof->checked_queries > 0, doubled = proof->double_queries > 0;

    return attention &&
           kvt_json_add_number(attention, "max_rel_error",
                               doubled ? proof->max_rel_error : (double)NAN) &&
           kvt_json_add(attention, "is_precise",
                        doubled && isfinite(tolerance)
                            ? cJSON_CreateBool(kvt_backend_proof_is_precise(proof, tolerance))
                            : cJSON_CreateNull()) &&
           kvt_json_add(attention, "bit_equal",
                        compared ? cJSON_CreateBool(proof->unequal_queries == 0)
                                 : cJSON_CreateNull()) &&
           kvt_json_add_number(attention, "tolerance", tolerance) &&
           kvt_json_add_number(attention, "compared_queries", (double)proof->checked_queries) &&
           kvt_json_add_number(attention, "unequal_queries", (double)proof->unequal_queries) &&
           kvt_json_add_number(attention, "double_precision_queries",
                               (double)proof->double_queries) &&
           kvt_json_add_number(attention, "corrupted_rows", (double)proof->corrupted_rows) &&
           kvt_json_add_number(attention, "corrupted_found", (double)proof->corrupted_found) &&
           kvt_json_add_number(attention, "draft_rings_compared", (double)proof->draft_rings) &&
           kvt_json_add_text(attention, "first_unequal", proof->first_unequal);
}

bool validate_add_imports(cJSON *object, const struct kvt_backend_imports *imports)
{
    cJSON *item = imports->requests > 0 ? kvt_json_add_object(object, "imports") : NULL;

    return imports->requests == 0 ||
           (item && kvt_json_add_number(item, "requests", (double)imports->requests) &&
            kvt_json_add_number(item, "beside_bytes", (double)imports->beside_bytes) &&
            kvt_json_add_number(item, "beside_s", imports->beside_ns * 1e-9) &&
            kvt_json_add_number(item, "joining_bytes", (double)imports->joining_bytes) &&
            kvt_json_add_number(item, "joining_s", imports->joining_ns * 1e-9) &&
            kvt_json_add_number(item, "waited_s", imports->waited_ns * 1e-9) &&
            kvt_json_add_number(item, "compared_pages", (double)imports->checked_pages));
}

static void print_imports(const struct kvt_backend_imports *imports)
{
    if (imports->requests == 0)
        return;
    printf("imports    of %llu requests: %.2f GB beside steps, in %.1f ms; %.2f GB as they "
           "joined, in %.1f ms; %.1f ms waited for\n",
           (unsigned long long)imports->requests, (double)imports->beside_bytes * 1e-9,
           imports->beside_ns * 1e-6, (double)imports->joining_bytes * 1e-9,
           imports->joining_ns * 1e-6, imports->waited_ns * 1e-6);
}

void validate_print_attention(const struct kvt_backend_proof *proof, double tolerance)
{
    print_imports(&proof->imports);
    if (proof->checked_queries == 0) {
        puts("attention  nothing was attended, or backend.check_queries is 0");
        return;
    }
    printf("attention  %llu queries computed again from the same rows: %llu differ in any bit",
           (unsigned long long)proof->checked_queries, (unsigned long long)proof->unequal_queries);
    if (isnan(proof->max_rel_error))
        printf("; %llu against double precision: one is not a number, of %.2g",
               (unsigned long long)proof->double_queries, tolerance);
    else if (proof->double_queries > 0)
        printf("; %llu against double precision: %.2g at most, of %.2g",
               (unsigned long long)proof->double_queries, proof->max_rel_error, tolerance);
    putchar('\n');
    if (proof->first_unequal)
        printf("           first: %s\n", proof->first_unequal);
}

const char *validate_gpu_name(const cJSON *machine)
{
    const cJSON *gpus = kvt_json_find(machine, "gpus");
    const cJSON *name = kvt_json_find(cJSON_GetArrayItem(gpus, 0), "name");

    return cJSON_IsString(name) ? name->valuestring : NULL;
}

/* acceptance.c -- reading tables of acceptance. */
#include "acceptance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"

enum {
    FILE_BYTES_MAX = 1 << 20,
    WHERE_BYTES = 200 /* leaves room for a place in the file */
};

static kvt_status read_list(const cJSON *tasks, const char *where, const char *task,
                            struct acceptance_list *list, struct kvt_error *err)
{
    const cJSON *array = NULL;
    kvt_status status = kvt_json_get_array(tasks, where, task, true, &array, err);
    if (status != KVT_OK)
        return status;

    char place[sizeof err->where];
    int count = cJSON_GetArraySize(array);
    (void)snprintf(place, sizeof place, "%s/%s", where, task);
    if (count < 1 || count > DRAFTS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, place,
                        "%d chances; expected 1 to %d, one a position; past the end the last holds",
                        count, DRAFTS_MAX);
    const cJSON *item = array->child;
    for (int i = 0; i < DRAFTS_MAX; i++) {
        (void)snprintf(place, sizeof place, "%s/%s/%d", where, task, i);
        if (!cJSON_IsNumber(item))
            return kvt_fail(err, KVT_ERR_INVALID, place,
                            "not a number; expected the chance of a draft, 0 to 1");
        if (!(item->valuedouble >= 0 && item->valuedouble <= 1))
            return kvt_fail(err, KVT_ERR_INVALID, place,
                            "%g is not a chance; expected a number from 0 to 1", item->valuedouble);
        list->chances[i] = item->valuedouble;
        if (item->next != NULL)
            item = item->next;
    }
    return KVT_OK;
}

/* All lists of the file, also those that no task of this run asks for. */
static kvt_status check_lists(const cJSON *tasks, const char *where, struct kvt_error *err)
{
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, tasks)
    {
        struct acceptance_list list;
        kvt_status status = read_list(tasks, where, item->string, &list, err);
        if (status != KVT_OK)
            return status;
    }
    if (kvt_json_find(tasks, "default") == NULL)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "no list \"default\", which tasks without a list of their own have");
    return KVT_OK;
}

static kvt_status read_basis(const cJSON *tree, const char *where, enum kvt_basis *basis,
                             struct kvt_error *err)
{
    static const enum kvt_basis bases[] = {KVT_BASIS_MEASURED,     KVT_BASIS_PROFILE,
                                           KVT_BASIS_DATASHEET,    KVT_BASIS_FITTED,
                                           KVT_BASIS_EXTRAPOLATED, KVT_BASIS_ASSUMED};
    const char *name = kvt_basis_name(KVT_BASIS_ASSUMED);
    kvt_status status = kvt_json_get_text(tree, where, "basis", false, &name, err);
    if (status != KVT_OK)
        return status;
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        if (strcmp(name, kvt_basis_name(bases[i])) == 0) {
            *basis = bases[i];
            return KVT_OK;
        }
    }
    return kvt_fail(err, KVT_ERR_INVALID, where,
                    "basis is \"%s\"; expected measured, profile, datasheet, fitted-to-paper, "
                    "extrapolated or assumed",
                    name);
}

static kvt_status read_acceptance(const cJSON *tree, const char *where, const char *const *tasks,
                                  struct acceptance *acceptance, struct kvt_error *err)
{
    static const char *const keys[] = {KVT_JSON_HEAD_KEYS, "basis", "tasks"};
    const uint32_t task_count = acceptance->task_count;
    const cJSON *lists = NULL;
    kvt_status status = kvt_json_check_head(tree, where, "kvtide/acceptance/1", err);
    if (status == KVT_OK)
        status = kvt_json_check_keys(tree, where, keys, sizeof keys / sizeof keys[0], err);
    if (status == KVT_OK)
        status = read_basis(tree, where, &acceptance->basis, err);
    if (status == KVT_OK)
        status = kvt_json_get_object(tree, where, "tasks", true, &lists, err);
    if (status != KVT_OK)
        return status;

    char place[sizeof err->where];
    (void)snprintf(place, sizeof place, "%s/tasks", where);
    status = check_lists(lists, place, err);
    for (uint32_t i = 0; status == KVT_OK && i < task_count; i++) {
        bool is_named = kvt_json_find(lists, tasks[i]) != NULL;
        status =
            read_list(lists, place, is_named ? tasks[i] : "default", &acceptance->lists[i], err);
    }
    return status == KVT_OK ? kvt_json_check_sources(tree, where, err) : status;
}

kvt_status acceptance_load(const char *path, const char *const *tasks, uint32_t task_count,
                           struct acceptance *out, struct kvt_error *err)
{
    cJSON *tree = NULL;
    kvt_status status = kvt_json_load(path, FILE_BYTES_MAX, &tree, err);
    if (status != KVT_OK)
        return status;
    char where[WHERE_BYTES];
    (void)snprintf(where, sizeof where, "%s#", path);
    struct acceptance acceptance = {.task_count = task_count};
    acceptance.lists = calloc(task_count, sizeof acceptance.lists[0]);
    if (acceptance.lists == NULL)
        status = kvt_fail_nomem(err, path);
    else
        status = read_acceptance(tree, where, tasks, &acceptance, err);
    cJSON_Delete(tree);
    if (status != KVT_OK) {
        acceptance_fini(&acceptance);
        return status;
    }
    *out = acceptance;
    return KVT_OK;
}

kvt_status kvt_acceptance_check(const char *path, struct kvt_error *err)
{
    static const char *const tasks[] = {"default"};
    struct acceptance acceptance;
    kvt_status status = acceptance_load(path, tasks, 1, &acceptance, err);
    if (status == KVT_OK)
        acceptance_fini(&acceptance);
    return status;
}

void acceptance_fini(struct acceptance *acceptance)
{
    free(acceptance->lists);
    *acceptance = (struct acceptance){.lists = NULL};
}

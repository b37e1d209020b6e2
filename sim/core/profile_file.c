/* profile_file.c -- a profile from its file. */
#include <stdio.h>
#include <string.h>

#include "kvt/json.h"
#include "kvt/profile.h"

enum {
    FILE_BYTES_MAX = 64 << 20, /* points come along */
    WHERE_BYTES = 160,         /* "FILE#" */
    PLACE_BYTES = 240,         /* of a family in it */
    INNER_BYTES = 320,         /* of what a family holds; an error keeps what it has room for */
    GPUS_MAX = 4096
};

static const double NS_MAX = (double)KVT_STEP_NS_MAX; /* one unit of a feature alone */
static const double FEATURE_MAX = 1e18;

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

static kvt_status find_feature(const cJSON *item, const char *place, bool of_group,
                               enum kvt_profile_feature *out, struct kvt_error *err)
{
    char names[480] = "";
    size_t used = 0;
    int count = of_group ? KVT_FEATURE_GROUP_FEATURES : KVT_FEATURES;

    for (int f = 0; f < count; f++) {
        const char *name = kvt_profile_feature_name((enum kvt_profile_feature)f);
        if (strcmp(item->string, name) == 0) {
            *out = (enum kvt_profile_feature)f;
            return KVT_OK;
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", f > 0 ? " " : "", name);
    }
    return kvt_fail(err, KVT_ERR_NOT_FOUND, place, "\"%.40s\": no such feature%s; there are: %s",
                    item->string, of_group ? " of what ranks share" : "", names);
}

static kvt_status read_limit(const cJSON *limit, const char *place, bool of_group,
                             double ns_per[KVT_FEATURES], struct kvt_error *err)
{
    const cJSON *item = NULL;

    if (!cJSON_IsObject(limit) || !limit->child)
        return kvt_fail(err, KVT_ERR_INVALID, place,
                        "a limit is an object of at least one feature and its ns");
    cJSON_ArrayForEach(item, limit)
    {
        enum kvt_profile_feature feature = KVT_FEATURE_STEP;
        kvt_status status = find_feature(item, place, of_group, &feature, err);
        if (status == KVT_OK && feature == KVT_FEATURE_GATHERING_GPUS)
            return kvt_fail(err, KVT_ERR_INVALID, place,
                            "no time is linear in \"%s\"; it is expected in \"range\" alone",
                            item->string);
        if (status == KVT_OK)
            status = kvt_json_get_f64(limit, place, item->string, true, 0, NS_MAX, &ns_per[feature],
                                      err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

static kvt_status read_limits(const cJSON *object, const char *where, bool of_group,
                              struct kvt_profile_family *family, struct kvt_error *err)
{
    char place[INNER_BYTES];
    const cJSON *limits = NULL, *limit = NULL;
    kvt_status status = kvt_json_get_array(object, where, "limits_ns", true, &limits, err);

    if (status != KVT_OK)
        return status;
    if (cJSON_GetArraySize(limits) > KVT_PROFILE_LIMITS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, where, "%d limits_ns; at most %d are expected",
                        cJSON_GetArraySize(limits), KVT_PROFILE_LIMITS_MAX);
    cJSON_ArrayForEach(limit, limits)
    {
        (void)snprintf(place, sizeof place, "%s/limits_ns/%u", where, family->limit_count);
        status = read_limit(limit, place, of_group, family->ns_per[family->limit_count], err);
        if (status != KVT_OK)
            return status;
        family->limit_count++;
    }
    return KVT_OK;
}

static kvt_status read_range(const cJSON *object, const char *where, bool of_group,
                             struct kvt_profile_family *family, struct kvt_error *err)
{
    char place[INNER_BYTES];
    const cJSON *range = NULL, *item = NULL;
    kvt_status status = kvt_json_get_object(object, where, "range", false, &range, err);

    (void)snprintf(place, sizeof place, "%s/range", where);
    cJSON_ArrayForEach(item, range)
    {
        enum kvt_profile_feature feature = KVT_FEATURE_STEP;
        const cJSON *least = cJSON_GetArrayItem(item, 0), *most = cJSON_GetArrayItem(item, 1);
        status = find_feature(item, place, of_group, &feature, err);
        if (status != KVT_OK)
            return status;
        if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) != 2 || !cJSON_IsNumber(least) ||
            !cJSON_IsNumber(most) || least->valuedouble < 0 ||
            most->valuedouble < least->valuedouble || most->valuedouble > FEATURE_MAX)
            return kvt_fail(err, KVT_ERR_INVALID, place,
                            "%s is no range; [least, most] is expected, neither below 0",
                            item->string);
        family->has_range[feature] = true;
        family->least[feature] = least->valuedouble;
        family->most[feature] = most->valuedouble;
    }
    return status;
}

/* KVT_PARTS where no family is called so. */
static enum kvt_step_part part_named(const char *name)
{
    for (int p = 0; p < KVT_PARTS; p++) {
        if (strcmp(name, kvt_step_part_name((enum kvt_step_part)p)) == 0)
            return (enum kvt_step_part)p;
    }
    return KVT_PARTS;
}

static kvt_status check_is_fetch(const char *place, enum kvt_step_part part, struct kvt_error *err)
{
    if (part == KVT_PART_FETCH)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, place,
                    "only \"fetch\" runs beside other families; \"%s\" is not hidden",
                    kvt_step_part_name(part));
}

/* Only a rank's own transfers run beside its kernels. */
static kvt_status read_hidden(const cJSON *object, const char *where, enum kvt_step_part part,
                              struct kvt_profile_family *family, struct kvt_error *err)
{
    char place[INNER_BYTES];
    const cJSON *hidden = NULL, *item = NULL;
    kvt_status status = kvt_json_get_object(object, where, "hidden_by", false, &hidden, err);

    (void)snprintf(place, sizeof place, "%s/hidden_by", where);
    if (status == KVT_OK && hidden)
        status = check_is_fetch(place, part, err);
    if (status != KVT_OK)
        return status;
    cJSON_ArrayForEach(item, hidden)
    {
        enum kvt_step_part by = part_named(item->string);
        if (by != KVT_PART_DENSE && by != KVT_PART_ATTEND)
            return kvt_fail(err, KVT_ERR_INVALID, place,
                            "\"%.40s\" hides no fetch; there are: dense attend", item->string);
        status =
            kvt_json_get_f64(hidden, place, item->string, true, 0, 1, &family->hidden_by[by], err);
        if (status != KVT_OK)
            return status;
    }
    return status;
}

static kvt_status read_exposed(const cJSON *object, const char *where, enum kvt_step_part part,
                               struct kvt_profile_family *family, struct kvt_error *err)
{
    char place[INNER_BYTES];
    const cJSON *exposed = NULL;
    kvt_status status = kvt_json_get_object(object, where, "exposed_ns", false, &exposed, err);

    if (status != KVT_OK || !exposed)
        return status;
    (void)snprintf(place, sizeof place, "%s/exposed_ns", where);
    status = check_is_fetch(place, part, err);
    if (status == KVT_OK)
        status = read_limit(exposed, place, false, family->exposed_ns_per, err);
    if (status == KVT_OK && family->limit_count == 0)
        return kvt_fail(err, KVT_ERR_INVALID, place,
                        "nothing is exposed of a fetch whose limits_ns are empty; a limit is "
                        "expected");
    return status;
}

/* Prompts take ns for each token and for each token of its context: what cluster.prefill can
 * say. */
static kvt_status check_prefill(const struct kvt_profile_family *family, const char *where,
                                struct kvt_error *err)
{
    bool has_others = false;

    for (int f = 0; f < KVT_FEATURES; f++)
        has_others =
            has_others || (f != KVT_FEATURE_PREFILL_TOKENS &&
                           f != KVT_FEATURE_PREFILL_CONTEXT_TOKENS && family->ns_per[0][f] > 0);
    if (family->limit_count == 1 && !has_others &&
        family->ns_per[0][KVT_FEATURE_PREFILL_TOKENS] > 0)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, where,
                    "prefill is one limit of prefill_tokens, above 0, and where wanted "
                    "prefill_context_tokens; this one is another");
}

static kvt_status read_family(const cJSON *object, const char *where, struct kvt_profile *profile,
                              struct kvt_error *err)
{
    static const char *const keys[] = {"name",       "limits_ns", "range",  "hidden_by",
                                       "exposed_ns", "terms",     "errors", "note"};
    const char *name = NULL;
    kvt_status status = kvt_json_check_keys(object, where, keys, LENGTH(keys), err);

    if (status == KVT_OK)
        status = kvt_json_get_text(object, where, "name", true, &name, err);
    if (status != KVT_OK)
        return status;
    enum kvt_step_part part = part_named(name);
    if (part == KVT_PARTS)
        return kvt_fail(err, KVT_ERR_NOT_FOUND, where,
                        "\"%.40s\": no such family; there are: host dense index resolve fetch "
                        "attend draft sampling prefill other",
                        name);
    struct kvt_profile_family *family = &profile->families[part];
    if (family->is_there)
        return kvt_fail(err, KVT_ERR_INVALID, where, "a second family \"%s\"; one is expected",
                        name);
    family->is_there = true;
    status = read_limits(object, where, kvt_profile_is_of_group(part), family, err);
    if (status == KVT_OK)
        status = read_range(object, where, kvt_profile_is_of_group(part), family, err);
    if (status == KVT_OK && part == KVT_PART_PREFILL)
        status = check_prefill(family, where, err);
    if (status == KVT_OK)
        status = read_exposed(object, where, part, family, err);
    return status == KVT_OK ? read_hidden(object, where, part, family, err) : status;
}

static kvt_status copy_name(const cJSON *object, const char *where, const char *key,
                            char out[KVT_PROFILE_NAME_BYTES], struct kvt_error *err)
{
    const char *text = NULL;
    kvt_status status = kvt_json_get_text(object, where, key, false, &text, err);

    if (status != KVT_OK || !text)
        return status;
    if (strlen(text) >= KVT_PROFILE_NAME_BYTES)
        return kvt_fail(err, KVT_ERR_INVALID, where, "%s is longer than %d bytes", key,
                        KVT_PROFILE_NAME_BYTES - 1);
    memcpy(out, text, strlen(text) + 1);
    return KVT_OK;
}

static kvt_status read_setting(const cJSON *tree, const char *where, struct kvt_profile *profile,
                               struct kvt_error *err)
{
    static const char *const keys[] = {"model", "hardware", "tp", "ep"};
    char place[PLACE_BYTES];
    const cJSON *setting = NULL;
    uint64_t tp = 0, ep = 0;
    kvt_status status = kvt_json_get_object(tree, where, "setting", true, &setting, err);

    (void)snprintf(place, sizeof place, "%s/setting", where);
    if (status == KVT_OK)
        status = kvt_json_check_keys(setting, place, keys, LENGTH(keys), err);
    if (status == KVT_OK)
        status = copy_name(setting, place, "model", profile->model, err);
    if (status == KVT_OK)
        status = copy_name(setting, place, "hardware", profile->hardware, err);
    if (status == KVT_OK)
        status = kvt_json_get_u64(setting, place, "tp", false, 1, GPUS_MAX, &tp, err);
    if (status == KVT_OK)
        status = kvt_json_get_u64(setting, place, "ep", false, 1, GPUS_MAX, &ep, err);
    profile->tp = (uint32_t)tp;
    profile->ep = (uint32_t)ep;
    return status;
}

static kvt_status read_profile(const cJSON *tree, const char *where, struct kvt_profile *profile,
                               struct kvt_error *err)
{
    static const char *const keys[] = {"schema",   "name",    "summary",       "setting", "made",
                                       "families", "machine", "leave_one_out", "points",  "tied"};
    const cJSON *families = NULL, *item = NULL;
    char place[PLACE_BYTES];
    unsigned index = 0;
    kvt_status status = kvt_json_check_head(tree, where, "kvtide/profile/1", err);

    if (status == KVT_OK)
        status = kvt_json_check_keys(tree, where, keys, LENGTH(keys), err);
    if (status == KVT_OK)
        status = read_setting(tree, where, profile, err);
    if (status == KVT_OK)
        status = kvt_json_get_array(tree, where, "families", true, &families, err);
    if (status == KVT_OK && cJSON_GetArraySize(families) == 0)
        status = kvt_fail(err, KVT_ERR_INVALID, where, "families is empty; one is expected");
    cJSON_ArrayForEach(item, families)
    {
        (void)snprintf(place, sizeof place, "%s/families/%u", where, index++);
        if (status == KVT_OK)
            status = read_family(item, place, profile, err);
    }
    return status;
}

kvt_status kvt_profile_load(const char *path, struct kvt_profile *out, struct kvt_error *err)
{
    struct kvt_profile profile = {.tp = 0};
    char where[WHERE_BYTES];
    cJSON *tree = NULL;
    kvt_status status = kvt_json_load(path, FILE_BYTES_MAX, &tree, err);

    if (status != KVT_OK)
        return status;
    (void)snprintf(where, sizeof where, "%s#", path);
    status = read_profile(tree, where, &profile, err);
    cJSON_Delete(tree);
    if (status == KVT_OK)
        *out = profile;
    return status;
}

/* list_plugins.c -- policies, laws and timing tables with their parameters, for `kvtide list`. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "list.h"

enum {
    TEXT_BYTES = 512
};

static const char *type_name(enum kvt_param_type type)
{
    switch (type) {
    case KVT_PARAM_COUNT:
        return "count";
    case KVT_PARAM_REAL:
        return "real";
    case KVT_PARAM_BOOL:
        return "bool";
    case KVT_PARAM_CHOICE:
        return "choice";
    case KVT_PARAM_TEXT:
        return "text";
    case KVT_PARAM_LIST:
    case KVT_PARAM_RECORDS:
        return "list";
    }
    return "";
}

/* "a|b" as "a | b", after what is in out. */
static void append_choices(char *out, const char *choices)
{
    size_t used = strlen(out);

    for (const char *c = choices; *c != '\0' && used + 4 < TEXT_BYTES; c++) {
        if (*c == '|')
            out[used++] = ' ';
        out[used++] = *c;
        if (*c == '|')
            out[used++] = ' ';
    }
    out[used] = '\0';
}

/* What the parameter takes; "" where that is any text. */
static const char *range_of(const struct kvt_param_spec *spec, char out[TEXT_BYTES])
{
    char minimum[32], maximum[32];

    kvt_json_print_number(spec->minimum, minimum);
    kvt_json_print_number(spec->maximum, maximum);
    out[0] = '\0';
    switch (spec->type) {
    case KVT_PARAM_COUNT:
    case KVT_PARAM_REAL:
        snprintf(out, TEXT_BYTES, "%s to %s", minimum, maximum);
        break;
    case KVT_PARAM_BOOL:
        snprintf(out, TEXT_BYTES, "false | true");
        break;
    case KVT_PARAM_CHOICE:
        append_choices(out, spec->choices);
        break;
    case KVT_PARAM_TEXT:
        break;
    case KVT_PARAM_LIST:
        snprintf(out, TEXT_BYTES, "each %s to %s", minimum, maximum);
        break;
    case KVT_PARAM_RECORDS:
        snprintf(out, TEXT_BYTES, "objects of: ");
        append_choices(out, spec->choices);
        break;
    }
    return out;
}

/* Records have no default when theirs is an empty list. */
static bool add_default_list(cJSON *entry, const struct kvt_param_spec *spec)
{
    const char *text = spec->default_text;
    cJSON *list = NULL;

    if (text == NULL || (spec->type == KVT_PARAM_RECORDS && strcmp(text, "[]") == 0))
        return true;
    if (kvt_json_parse(text, strlen(text), spec->name, 1, &list, NULL) == KVT_OK &&
        cJSON_AddItemToObject(entry, "default", list))
        return true;
    cJSON_Delete(list);
    return false;
}

/* The default as JSON, unless the parameter must be given. */
static bool add_default(cJSON *entry, const struct kvt_param_spec *spec)
{
    double number = spec->default_number;

    switch (spec->type) {
    case KVT_PARAM_COUNT:
    case KVT_PARAM_REAL:
        return !(number >= spec->minimum && number <= spec->maximum) ||
               list_add_number(entry, "default", number);
    case KVT_PARAM_BOOL:
        return cJSON_AddBoolToObject(entry, "default", number != 0) != NULL;
    case KVT_PARAM_CHOICE:
    case KVT_PARAM_TEXT:
        return list_add_text(entry, "default", spec->default_text);
    case KVT_PARAM_LIST:
    case KVT_PARAM_RECORDS:
        return add_default_list(entry, spec);
    }
    return false;
}

static bool add_params(cJSON *entry, const struct kvt_plugin_info *info)
{
    char range[TEXT_BYTES], takes[TEXT_BYTES];
    cJSON *params = cJSON_AddArrayToObject(entry, "params");
    bool ok = params != NULL;

    for (size_t i = 0; ok && i < info->param_count; i++) {
        const struct kvt_param_spec *spec = &info->params[i];
        cJSON *param = list_add_entry(params, "name", spec->name);
        ok = param != NULL && list_add_text(param, "type", type_name(spec->type)) &&
             list_add_text(param, "range", range_of(spec, range)[0] != '\0' ? range : NULL) &&
             add_default(param, spec) &&
             list_add_text(param, "takes",
                           kvt_idle_cures(spec->idle, takes, sizeof takes)[0] != '\0' ? takes
                                                                                      : NULL) &&
             list_add_text(param, "help", spec->help) &&
             list_add_text(param, "calibrated_to", spec->calibrated_to);
    }
    return ok;
}

static kvt_status add_kind(cJSON *array, enum kvt_plugin_kind kind, struct kvt_error *err)
{
    size_t count = 0;
    const struct kvt_plugin_info *const *list = kvt_plugin_list(cli_plugins(), kind, &count);

    for (size_t i = 0; i < count; i++) {
        cJSON *entry = list_add_entry(array, "name", list[i]->name);
        if (entry == NULL || !list_add_text(entry, "kind", kvt_plugin_kind_name(kind)) ||
            !list_add_text(entry, "summary", list[i]->summary) || !add_params(entry, list[i]))
            return kvt_fail_nomem(err, "a list of plug-ins");
    }
    return KVT_OK;
}

kvt_status list_residency(cJSON *array, struct kvt_error *err)
{
    return add_kind(array, KVT_PLUGIN_RESIDENCY, err);
}

kvt_status list_replacement(cJSON *array, struct kvt_error *err)
{
    return add_kind(array, KVT_PLUGIN_REPLACEMENT, err);
}

kvt_status list_scheduling(cJSON *array, struct kvt_error *err)
{
    return add_kind(array, KVT_PLUGIN_SCHEDULING, err);
}

kvt_status list_router(cJSON *array, struct kvt_error *err)
{
    return add_kind(array, KVT_PLUGIN_ROUTER, err);
}

kvt_status list_policies(cJSON *array, struct kvt_error *err)
{
    static list_fill *const parts[] = {list_residency, list_replacement, list_scheduling,
                                       list_router};
    kvt_status status = KVT_OK;

    for (size_t i = 0; status == KVT_OK && i < sizeof parts / sizeof parts[0]; i++)
        status = parts[i](array, err);
    return status;
}

kvt_status list_laws(cJSON *array, struct kvt_error *err)
{
    return add_kind(array, KVT_PLUGIN_LAW, err);
}

kvt_status list_timing(cJSON *array, struct kvt_error *err)
{
    return add_kind(array, KVT_PLUGIN_TIMING, err);
}

kvt_status list_import(cJSON *array, struct kvt_error *err)
{
    return add_kind(array, KVT_PLUGIN_IMPORT, err);
}

kvt_status list_arrivals(cJSON *array, struct kvt_error *err)
{
    return add_kind(array, KVT_PLUGIN_ARRIVAL, err);
}

kvt_status list_lengths(cJSON *array, struct kvt_error *err)
{
    return add_kind(array, KVT_PLUGIN_LENGTH, err);
}

kvt_status list_backends(cJSON *array, struct kvt_error *err)
{
    return add_kind(array, KVT_PLUGIN_BACKEND, err);
}

kvt_status list_speculation(cJSON *array, struct kvt_error *err)
{
    return add_kind(array, KVT_PLUGIN_SPECULATION, err);
}

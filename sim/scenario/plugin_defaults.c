/* plugin_defaults.c -- the parameters of a plug-in where there is no scenario. */
#include <string.h>

#include "bind.h"
#include "kvt/plugins.h"

/* A shipped name becomes the path that a plug-in sees; a drafter is the host's to read. */
static kvt_status find_shipped(const struct kvt_param_spec *spec, const char *data_dir,
                               struct kvt_arena *arena, struct kvt_param_value *value,
                               struct kvt_error *err)
{
    const struct kvt_key key = kvt_key_of_param(spec);

    if (!key.is_name || strcmp(spec->name, "drafter") == 0 || strcmp(value->text, "none") == 0)
        return KVT_OK;
    value->text = kvt_arena_printf(arena, "%s/%s/%s.json", data_dir, key.folder, value->text);
    return value->text != NULL ? KVT_OK : kvt_fail_nomem(err, "a plug-in's parameters");
}

kvt_status kvt_plugin_defaults(const struct kvt_plugin_info *info, const char *data_dir,
                               struct kvt_arena *arena, struct kvt_params *out,
                               const char **missing, struct kvt_error *err)
{
    const struct kvt_layer layer = {
        .kind = KVT_LAYER_DEFAULT, .name = "default", .folder = "", .pointer = ""};
    struct kvt_param_value *values =
        kvt_arena_array(arena, info->param_count, sizeof *values, _Alignof(struct kvt_param_value));

    *missing = NULL;
    if (values == NULL)
        return kvt_fail_nomem(err, "a plug-in's parameters");
    for (size_t i = 0; i < info->param_count; i++) {
        const struct kvt_param_spec *spec = &info->params[i];
        cJSON *node = NULL;
        values[i] = (struct kvt_param_value){.number = 0};
        kvt_status status = kvt_default_param(arena, &layer, spec, &node, err);
        if (status == KVT_OK && node == NULL)
            *missing = spec->name;
        else if (status == KVT_OK)
            status = kvt_bind_param(arena, spec, node, &values[i], err);
        if (status == KVT_OK && node != NULL && spec->type == KVT_PARAM_TEXT)
            status = find_shipped(spec, data_dir, arena, &values[i], err);
        if (status != KVT_OK)
            return status;
    }
    *out = (struct kvt_params){.values = values, .count = info->param_count};
    return KVT_OK;
}

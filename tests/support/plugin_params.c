/* plugin_params.c -- parameter values for tests that stand a plug-in up without a scenario. */
#include "support/plugin_params.h"

#include <math.h>
#include <string.h>

#include <check.h>

/* The index of `name` among "a|b|c", and how many there are. */
static size_t choice_index(const char *choices, const char *name, size_t *count)
{
    size_t found = SIZE_MAX;
    size_t index = 0;
    for (const char *start = choices;; index++) {
        size_t length = strcspn(start, "|");
        if (strlen(name) == length && memcmp(start, name, length) == 0)
            found = index;
        if (start[length] == '\0')
            break;
        start += length + 1;
    }
    *count = index + 1;
    return found;
}

struct kvt_params support_default_params(const struct kvt_plugin_info *info,
                                         struct kvt_param_value values[SUPPORT_PARAMS_MAX])
{
    ck_assert_uint_le(info->param_count, SUPPORT_PARAMS_MAX);
    for (size_t i = 0; i < info->param_count; i++) {
        const struct kvt_param_spec *spec = &info->params[i];
        values[i] = (struct kvt_param_value){.number = spec->default_number};
        ck_assert_msg(spec->type != KVT_PARAM_LIST && spec->type != KVT_PARAM_RECORDS,
                      "%s.%s: lists have no default here", info->name, spec->name);
        if (spec->type == KVT_PARAM_CHOICE) {
            size_t count;
            size_t index = choice_index(spec->choices, spec->default_text, &count);
            ck_assert_msg(index != SIZE_MAX, "%s.%s: its default is no choice of its", info->name,
                          spec->name);
            values[i].number = (double)index;
        }
        values[i].text = spec->default_text;
    }
    return (struct kvt_params){.values = values, .count = info->param_count};
}

struct kvt_choice support_default_choice(enum kvt_plugin_kind kind, const char *name,
                                         struct kvt_param_value values[SUPPORT_PARAMS_MAX])
{
    struct kvt_choice choice = {0};
    struct kvt_error err = {0};
    ck_assert_msg(kvt_plugin_find(NULL, kind, name, "test", &choice.info, &err) == KVT_OK, "%s: %s",
                  err.where, err.message);
    choice.params = support_default_params(choice.info, values);
    return choice;
}

void support_change_param(const struct kvt_param_spec *spec, struct kvt_param_value *value)
{
    switch (spec->type) {
    case KVT_PARAM_REAL:
        value->number = fmax(value->number / 2, spec->minimum);
        break;
    case KVT_PARAM_COUNT:
        value->number = value->number < spec->maximum ? value->number + 1 : value->number - 1;
        break;
    case KVT_PARAM_BOOL:
        value->number = 1 - value->number;
        break;
    case KVT_PARAM_CHOICE: {
        size_t count;
        (void)choice_index(spec->choices, "", &count);
        value->number = fmod(value->number + 1, (double)count);
        value->text = NULL;
        break;
    }
    case KVT_PARAM_TEXT:
    case KVT_PARAM_LIST:
    case KVT_PARAM_RECORDS:
        ck_abort_msg("%s: its kind has no other value here", spec->name);
    }
}

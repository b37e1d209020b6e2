/* calibrated.c -- values of parameters whose defaults were fitted to something. */
#include "calibrated.h"

#include <stdio.h>
#include <string.h>

#include "kvt/json.h"

void calibrated_print(const struct kvt_param_value *value, char out[CALIBRATED_BYTES])
{
    static const char ending[] = ".json";

    if (!value->text) {
        kvt_json_print_number(value->number, out);
        return;
    }
    const char *slash = strrchr(value->text, '/');
    snprintf(out, CALIBRATED_BYTES, "%s", slash ? slash + 1 : value->text);
    size_t length = strlen(out), cut = sizeof ending - 1;
    if (length > cut && strcmp(out + length - cut, ending) == 0)
        out[length - cut] = '\0';
}

bool calibrated_counts(const struct kvt_scenario *scenario, const char *object,
                       const struct kvt_param_spec *spec)
{
    char name[CALIBRATED_BYTES];
    const cJSON *node = scenario->tree;

    while (*object != '\0') {
        size_t length = strcspn(object, ".");
        (void)snprintf(name, sizeof name, "%.*s", (int)length, object);
        node = kvt_json_find(node, name);
        object += length + (object[length] == '.');
    }
    return spec->calibrated_to && kvt_json_find(node, spec->name);
}

bool calibrated_is_default(const struct kvt_param_spec *spec, const struct kvt_param_value *value)
{
    char text[CALIBRATED_BYTES];

    if (!value->text)
        return value->number == spec->default_number;
    calibrated_print(value, text);
    return spec->default_text && strcmp(text, spec->default_text) == 0;
}
